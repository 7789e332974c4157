//! One connection, as those see it who send on it.
//!
//! Invariants:
//! 1. The outbox's mutex is held while the kernel is given bytes, so that frames of several threads do not interleave.
//! 2. Nobody blocks in it: the kernel takes what it can at once, and the rest is the service thread's.
//! 3. Reading is the supervisor's alone. After a failed write it still reads to the end of file, since what a killed peer
//!    wrote stays readable.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::attention::Bell;
use crate::frame::{Frame, FrameError};
use crate::handshake::{Hello, MAX_HELLO};
use crate::memory::MemorySocket;
use crate::outbox::Outbox;
pub use crate::outbox::Written;
use crate::socket::Socket;

/// The name of a connection, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    pub(crate) fn next() -> ConnectionId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The process at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its pid, from the kernel. `None` when the kernel cannot tell: the peer lives in another PID namespace, or the system does
    /// not say. [`Hello::pid`] is what it calls itself.
    pub pid: Option<u32>,
    /// Its user, from the kernel. `None` on Windows, where the owner of the pipe was compared instead.
    pub uid: Option<u32>,
    /// What it said first.
    pub hello: Hello,
}

/// A connection to another process, both of whom have said hello. Clones are the same connection.
///
/// Sending is in two steps, so that several frames cost one system call: [`queue`](Connection::queue) them, then
/// [`flush`](Connection::flush). Any thread may do both, and neither blocks. What the kernel does not take at once is written by the
/// thread that drives the [`Supervisor`](crate::Supervisor). What the peer says, the supervisor tells.
///
/// The connection stays open until the supervisor ends it. Dropping the clones closes nothing.
#[derive(Clone)]
pub struct Connection {
    link: Arc<Link>,
    peer: Arc<Peer>,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, peer: Peer) -> Connection {
        Connection { link, peer: Arc::new(peer) }
    }

    /// Its name in the events.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.link.id
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Appends a frame to what waits to be sent, and writes nothing. Returns the position at which the frame will be wholly in the
    /// kernel: the number of bytes that were ever queued on this connection. A long payload is not copied.
    ///
    /// On a connection that is over, nothing is kept and the position is never reached: [`Event::Disconnected`](crate::Event::Disconnected)
    /// is there or on its way. A client that leaves too much unread loses its connection ([`Options::max_backlog`](crate::Options::max_backlog)).
    ///
    /// # Errors
    ///
    /// [`FrameError`] for a frame that is too long or malformed. No byte of it was queued, and the connection goes on.
    pub fn queue(&self, frame: &Frame) -> Result<u64, FrameError> {
        self.link.queue(frame)
    }

    /// Gives the kernel what it takes now, without blocking. The rest is written when the peer has read on, and
    /// [`Event::Written`](crate::Event::Written) tells of it.
    ///
    /// A failure is not an error here: the supervisor reads what the peer may still have said, and then tells that the connection is
    /// over.
    pub fn flush(&self) -> Written {
        self.link.flush()
    }

    /// How far the writing has come.
    #[must_use]
    pub fn written(&self) -> Written {
        self.link.outbox().outbox.written()
    }

    /// Closes the connection, from any thread. What can be written at once is written; what waits beyond that is dropped.
    ///
    /// [`Event::Disconnected`](crate::Event::Disconnected) follows when the frames that were received before were given out. A second
    /// close does nothing.
    pub fn close(&self) {
        self.link.close();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.link.id.0).field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// What carries the bytes.
#[derive(Debug)]
pub(crate) enum Transport {
    Socket(Socket),
    Memory(MemorySocket),
}

/// The part of a connection that its senders and the supervisor share.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    pub(crate) transport: Transport,
    outbox: Mutex<Sending>,
    closed: AtomicBool,
    /// `None` in memory, where nobody serves.
    bell: Option<Arc<Bell>>,
    max_frame: AtomicUsize,
    max_backlog: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Sending {
    pub(crate) outbox: Outbox,
    /// Somebody's flush left bytes, so that he waits to hear of progress; whoever makes it. Up to here it was told.
    pub(crate) awaited: Option<u64>,
    pub(crate) failed: Option<WriteFailure>,
}

/// Why nothing is written any more. The supervisor takes it from here.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    Io(io::Error),
    Backlog { backlog: usize, limit: usize },
}

impl Link {
    pub(crate) fn new(
        id: ConnectionId,
        transport: Transport,
        bell: Option<Arc<Bell>>,
        max_frame: usize,
        max_backlog: usize,
    ) -> Arc<Link> {
        let (outbox, closed, max_frame) = (Mutex::default(), AtomicBool::new(false), AtomicUsize::new(max_frame));
        Arc::new(Link { id, transport, outbox, closed, bell, max_frame, max_backlog })
    }

    pub(crate) fn queue(&self, frame: &Frame) -> Result<u64, FrameError> {
        let mut sending = self.outbox();
        let position = sending.outbox.push(frame, self.max_frame.load(Ordering::Relaxed))?;
        let backlog = sending.outbox.backlog();
        if backlog > self.max_backlog {
            let limit = self.max_backlog;
            sending.fail(WriteFailure::Backlog { backlog, limit });
            drop(sending);
            self.ring();
        }
        Ok(position)
    }

    /// Says hello, which may be longer than other frames.
    pub(crate) fn greet(&self, hello: &Hello) -> Result<(), FrameError> {
        self.outbox().outbox.push(&hello.frame(), MAX_HELLO)?;
        self.flush();
        Ok(())
    }

    /// The peer takes no longer frames than this.
    pub(crate) fn limit_frames(&self, limit: u32) {
        self.max_frame.fetch_min(usize::try_from(limit).unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    pub(crate) fn flush(&self) -> Written {
        let mut sending = self.outbox();
        self.write(&mut sending);
        let written = sending.outbox.written();
        if written.backlog > 0 {
            sending.awaited.get_or_insert(written.position);
        }
        let ring = sending.awaited.is_some() || sending.failed.is_some();
        drop(sending);
        if ring {
            self.ring();
        }
        written
    }

    /// Writes what the kernel takes. On a failure there is no backlog any more.
    pub(crate) fn write(&self, sending: &mut Sending) {
        self.write_some(sending, usize::MAX);
    }

    /// The same, but stops when `most` bytes were taken. Whether it has.
    pub(crate) fn write_some(&self, sending: &mut Sending, most: usize) -> bool {
        let mut taken = 0;
        let written = sending.outbox.write(|slices| {
            if taken >= most {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = self.transport.send(slices)?;
            taken += count;
            Ok(count)
        });
        match written {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => sending.fail(WriteFailure::Io(error)),
            _ => {}
        }
        taken >= most && sending.outbox.backlog() > 0
    }

    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut sending = self.outbox();
        self.write(&mut sending);
        sending.outbox.discard();
        self.transport.shutdown();
        drop(sending);
        self.ring();
    }

    /// Ends it for all who hold it.
    pub(crate) fn end(&self) {
        self.closed.store(true, Ordering::Release);
        self.outbox().outbox.discard();
        self.transport.shutdown();
    }

    pub(crate) fn socket(&self) -> Option<&Socket> {
        match &self.transport {
            Transport::Socket(socket) => Some(socket),
            Transport::Memory(_) => None,
        }
    }

    /// Whether this side closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn outbox(&self) -> MutexGuard<'_, Sending> {
        // A panic in here could only come from running out of memory, which leaves at worst a frame that is not whole. The peer
        // finds that and ends the connection.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Sending {
    /// How far the writing has come, if somebody waits to hear it and it is news.
    pub(crate) fn progress(&mut self) -> Option<Written> {
        let written = self.outbox.written();
        let news = self.awaited.is_some_and(|told| told < written.position);
        self.awaited = (written.backlog > 0).then_some(written.position);
        news.then_some(written)
    }

    fn fail(&mut self, failure: WriteFailure) {
        self.outbox.discard();
        // The first failure is the cause of the others.
        self.failed.get_or_insert(failure);
    }
}

impl Transport {
    fn send(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Transport::Socket(socket) => socket.send(slices),
            Transport::Memory(socket) => socket.send(slices),
        }
    }

    fn shutdown(&self) {
        match self {
            Transport::Socket(socket) => socket.shutdown(),
            Transport::Memory(socket) => socket.shutdown(),
        }
    }
}
