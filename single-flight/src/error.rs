//! What can go wrong, one enum for each operation.

use crate::key::Key;
use crate::outcome::Failure;
use crate::protocol::Rejection;
use crate::run::Joined;
use flight_connection::{AddressError, AttemptError};
use flight_fencing::FencingToken;
use flight_key_lock::{LockError, OpenDirectoryError};
use flight_lease::LeaseLost;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a [`SingleFlight`](crate::SingleFlight) could not be opened. Nothing was locked or changed, except that the directory may have been created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be opened or created, or its file system cannot exclude.
    #[error(transparent)]
    Directory(#[from] OpenDirectoryError),
    /// The directory's path leaves no room for the socket's name.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The folder of the key locks cannot be opened or created.
    #[error(transparent)]
    Locks(#[from] LockError),
    /// The thread that serves the directory could not be started.
    #[error(
        "could not start the service thread for {directory}: {source}; a process has a limit of threads and memory"
    )]
    Thread {
        /// The directory.
        directory: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// How a call failed.
///
/// `Failed`, `Work` and `LeaseLost` speak of the work; all others of the call. After every error the next call of the key is a call
/// like any other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// This call's own work returned an error. It comes back as it was: downcast it.
    #[error("the work of {key} failed: {source}")]
    Work {
        /// The key.
        key: Key,
        /// The flight's token.
        token: FencingToken,
        /// The work's error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The flight that this call joined failed: its leader's work returned an error, panicked or was aborted.
    #[error("the flight of {key} that this call joined failed: {failure}")]
    Failed {
        /// The key.
        key: Key,
        /// The flight's token.
        token: FencingToken,
        /// What the leader said of it.
        failure: Failure,
    },
    /// The flight that this call joined ended without an outcome: its leader died, closed, or lost its lease.
    ///
    /// It does **not** mean that the work did not happen: the leader may have died after its last effect. Call again, and give the
    /// token to whatever the work writes to, so that a late writer of the older flight is refused.
    #[error(
        "the flight of {key} (token {token}) that this call joined was interrupted: its leader died, closed or lost its \
         lease. The work may have happened in part or in whole; call again to run it"
    )]
    Interrupted {
        /// The key.
        key: Key,
        /// The token of the flight that was interrupted.
        token: FencingToken,
    },
    /// This call's own work ran, and its lease was lost meanwhile: another may have run beside it, or its outcome could not be
    /// delivered.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// The call's `wait_timeout` ran out. Its own work never began, and whatever it waited for goes on.
    #[error("waited {waited:?} for {key}: {waiting_for}")]
    TimedOut {
        /// The key.
        key: Key,
        /// The limit that the caller had set.
        waited: Duration,
        /// What it waited for.
        waiting_for: WaitingFor,
    },
    /// The call was made inside the work of the same key: it would wait for itself.
    #[error("a call of {key} inside the work of {key} would wait for itself: call another key, or call after the work")]
    Reentrant {
        /// The key.
        key: Key,
    },
    /// The handle was closed before or during the call.
    #[error("the call of {key} ended because its handle was closed")]
    Closed {
        /// The key.
        key: Key,
    },
    /// The coordinator refused the call.
    #[error("the call of {key} was refused: {reason}")]
    Rejected {
        /// The key.
        key: Key,
        /// Why.
        reason: Rejection,
    },
    /// The coordinator is of a version that does not know a request that this call needs.
    #[error(
        "the coordinator does not know a request that the call of {key} needs: give all processes of the directory the same version"
    )]
    Unsupported {
        /// The key.
        key: Key,
    },
    /// The codec could not encode the value of this call's work. The joiners hear it as a failure.
    #[error("the value of {key} cannot be encoded: {source}")]
    Encode {
        /// The key.
        key: Key,
        /// The flight's token.
        token: FencingToken,
        /// What the codec said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The value of this call's work is longer than a frame may be. The joiners hear it as a failure.
    #[error(
        "the value of {key} takes {length} bytes encoded, and {limit} is the limit: land a path to it, or raise the limit"
    )]
    TooLarge {
        /// The key.
        key: Key,
        /// The encoded length, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The codec could not decode the flight's value. Only this call fails.
    #[error("the value of {key} cannot be decoded: {source}")]
    Decode {
        /// The key.
        key: Key,
        /// The flight's token.
        token: FencingToken,
        /// What the codec said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The key's lock could not be tried.
    #[error("could not try the lock of {key}: {source}")]
    Lock {
        /// The key.
        key: Key,
        /// The step, the path, and what the operating system said.
        source: Arc<LockError>,
    },
    /// No coordinator can be reached, and none elected.
    #[error("no coordinator for {key} in {directory}: {source}")]
    Unavailable {
        /// The key.
        key: Key,
        /// The directory.
        directory: PathBuf,
        /// The step, the path, and what went wrong.
        source: Arc<AttemptError>,
    },
    /// The call was made outside a tokio runtime, so there is nothing to run the work.
    #[error("the call of {key} was made outside a tokio runtime: use `single_flight::blocking` there")]
    NoRuntime {
        /// The key.
        key: Key,
    },
    /// The handle was opened by the process that this one was forked from.
    #[error("the call of {key} uses a handle from before a fork: a child opens its own")]
    Forked {
        /// The key.
        key: Key,
    },
}

/// What a call waited for when its time ran out. In no case is it safe to delete a file of the directory: only the end of
/// the process that holds a lock frees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitingFor {
    /// For a flight that it had joined.
    Flight(Joined),
    /// For the holder of the key's lock, which has not told the coordinator what it runs: a child that outlived its leader,
    /// a leader whose coordinator changes, or a lease that somebody stored.
    KeyLock,
    /// For the coordinator.
    Coordinator {
        /// Its process id, where it can be known.
        pid: Option<u32>,
        /// What is known of it.
        state: &'static str,
    },
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitingFor::Flight(Joined { pid, label, token, since }) => {
                write!(f, "process {pid} ({label}) runs it (token {token}, for {since:?} when this call joined)")
            }
            WaitingFor::KeyLock => {
                write!(
                    f,
                    "a process that holds the key's lock and has not said what it runs; it goes on when that process ends"
                )
            }
            WaitingFor::Coordinator { pid: Some(pid), state } => write!(f, "the coordinator, process {pid}, {state}"),
            WaitingFor::Coordinator { pid: None, state } => write!(f, "the coordinator {state}"),
        }
    }
}

/// Why [`close`](crate::SingleFlight::close) could not wait for everything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The time ran out before every landing was acknowledged. The handle is closed all the same.
    #[error(
        "closed after {waited:?} without the acknowledgement of every landing; {waiting_for}. Joiners that have not got their outcome may hear `interrupted`"
    )]
    Unacknowledged {
        /// The limit.
        waited: Duration,
        /// What it waited for.
        waiting_for: WaitingFor,
    },
    /// The handle was opened by the process that this one was forked from.
    #[error("a handle from before a fork is its parent's to close")]
    Forked,
}
