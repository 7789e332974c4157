//! Everything that a supervisor can tell.

use std::io;

use flight_election::CampaignError;
use flight_fencing::Epoch;
use flight_key_lock::LocalDirectory;

use crate::connection::{Connection, ConnectionId, Written};
use crate::error::AttemptError;
use crate::frame::{Frame, FrameError};
use crate::supervisor::phase::Phase;
use crate::supervisor::term::Term;

/// What has happened. [`Supervisor::next`](crate::Supervisor::next) gives events in their order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// There is a connection to the process that serves, and both have said hello. Its epoch is in
    /// [`peer().hello`](crate::Peer::hello). There is one such connection at a time.
    Connected(Connection),
    /// This process serves from now on: the epoch is durable, and the socket is published.
    Elected(Term),
    /// The term was passed to a greater epoch, since a client that is about to be accepted had seen one that was not below
    /// ours. It is durable already, and [`Term::epoch`] says it too.
    EpochRaised(Epoch),
    /// A client of our term, and both have said hello.
    Accepted(Connection),
    /// A frame of the peer.
    Frame(ConnectionId, Frame),
    /// The kernel took some of what had to wait in an outbox. Told for progress that the service thread made; what
    /// [`Connection::flush`] could write at once, it told itself.
    Written(ConnectionId, Written),
    /// The connection is over, and everything that could be read from it was given out before.
    Disconnected(ConnectionId, DisconnectReason),
    /// Our term is over. Nobody is connected any more, and the lock is released.
    Deposed(DeposedReason),
    /// The path leads to another directory by now, or led nowhere. The supervisor has opened (and perhaps created) the
    /// directory that is there now, and goes on with it. It remembers the highest epoch that it has seen.
    DirectoryReplaced(LocalDirectory),
    /// An attempt to connect or to serve failed. It is repeated, after a while.
    Failed(AttemptError),
    /// The phase has changed.
    Phase(Phase),
    /// All that the kernel had received when [`read_dry`](crate::Supervisor::read_dry) was called with this ticket was given out before.
    Dry(u64),
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// The peer closed the connection, or its process ended.
    #[error("the peer closed the connection, or its process ended")]
    EndOfFile,
    /// [`Connection::close`] was called, or the supervisor was closed.
    #[error("this process closed the connection")]
    Closed,
    /// Reading failed.
    #[error("cannot read from the connection: {0}")]
    Read(io::Error),
    /// Writing failed, and no end of file followed in time.
    #[error("cannot write to the connection: {0}")]
    Write(io::Error),
    /// The peer sent what is no frame.
    #[error("what the peer sent cannot be read: {0}")]
    Framing(FrameError),
    /// The peer did not take what was queued for it, and the queue reached its limit.
    #[error("the peer left {backlog} bytes waiting, and the limit is {limit}")]
    Backlog {
        /// The bytes that waited.
        backlog: usize,
        /// How many may wait, [`Options::max_backlog`](crate::Options::max_backlog).
        limit: usize,
    },
    /// The term in which the connection was accepted is over.
    #[error("the term of this process is over")]
    TermEnded,
    /// The directory in which the peer serves is not the one at its path any more.
    #[error("the directory was removed or replaced")]
    DirectoryReplaced,
}

/// Why a term is over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeposedReason {
    /// [`Supervisor::resign`](crate::Supervisor::resign) was called.
    #[error("this process resigned")]
    Resigned,
    /// `flight.lock` is not the file any more that this process locked, or the directory is not the one at its path.
    #[error("flight.lock or its directory was removed or replaced, so that another process may be elected")]
    LockReplaced,
    /// The file system did not answer whether we are still alone, several times in a row.
    #[error("cannot find out whether this process still serves alone: {0}")]
    CannotCheck(io::Error),
    /// A client had seen a greater epoch, and ours could not be raised above it.
    #[error("cannot pass an epoch that a client has seen: {0}")]
    EpochNotRaised(CampaignError),
}
