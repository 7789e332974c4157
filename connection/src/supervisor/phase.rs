//! What a supervisor is about, in one word.

use std::time::Instant;

use flight_fencing::Epoch;

/// What the supervisor is doing. [`Event::Phase`](crate::Event::Phase) tells each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Nobody is wanted, and nobody is there.
    Idle,
    /// It looks for the process that serves, or campaigns to be it.
    Connecting,
    /// A process holds the term and does not answer: it is stopped, or has more to do than it can. It is waited for without
    /// limit, because it holds the kernel's lock and would go on as if nothing had happened.
    NotAnswering {
        /// Who, as far as the kernel tells. It does not when the queue of the socket is full, nor across PID namespaces.
        pid: Option<u32>,
        /// Since when.
        since: Instant,
    },
    /// Somebody holds `flight.lock`, and nobody listens on the socket: a process that began to serve and was stopped before it
    /// could listen, or a child process that inherited the lock, or a person with flock(1).
    LockHeldWithoutSocket {
        /// Since when.
        since: Instant,
    },
    /// The last attempt failed ([`Event::Failed`](crate::Event::Failed) told why).
    BackingOff {
        /// When the next one is made.
        until: Instant,
    },
    /// Connected to the process that serves.
    Connected {
        /// Its pid, as far as the kernel tells.
        pid: Option<u32>,
        /// The epoch of its term, as of the handshake.
        epoch: Epoch,
    },
    /// This process serves.
    Serving {
        /// The epoch of its term.
        epoch: Epoch,
    },
}
