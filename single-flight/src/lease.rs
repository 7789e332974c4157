use crate::driver::Hold;
use std::io;
use std::ops::Deref;
use std::process::{Child, Command};
use std::sync::Arc;

/// What a work gets: the flight's token, the signal that the lease was lost, and the key's lock for as long as it lives.
///
/// It is a [`flight_lease::Lease`] that keeps the key lock. Clone it into `spawn_blocking` or a thread, and the key stays locked until
/// that clone is dropped, even if the work's future is gone. A clone that is stored for ever keeps the key for ever:
/// [`status`](crate::SingleFlight::status) shows it.
#[derive(Clone, Debug)]
pub struct Lease {
    lease: flight_lease::Lease,
    pub(crate) hold: Arc<Hold>,
}

impl Lease {
    pub(crate) fn new(lease: flight_lease::Lease, hold: Arc<Hold>) -> Self {
        Lease { lease, hold }
    }

    /// Starts a child process that keeps the key while it lives, even if this process dies.
    ///
    /// On Unix the child inherits the lock's descriptor. On Windows it is put into a job and dies with this process. It covers
    /// only the death of this process: keep a clone of the lease until you have waited for the child, because the lock is let go
    /// of with the last lease, whatever the child does.
    ///
    /// # Errors
    /// Those of [`Command::spawn`]; and when the lock is gone already, because the lease was lost and the work has ended.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.hold.spawn(command)
    }
}

impl Deref for Lease {
    type Target = flight_lease::Lease;

    fn deref(&self) -> &flight_lease::Lease {
        &self.lease
    }
}
