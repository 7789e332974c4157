//! Who needs the service thread.
//!
//! Everything that a supervisor waits for ends in one list of sources and one notification: sockets that the kernel has
//! something for, connections on which another thread left bytes, and wishes of the owner. So the supervisor looks only at what
//! has something to say, however many connections there are, and its waiting can be dropped at any point without losing anything.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use tokio::sync::Notify;

use crate::connection::ConnectionId;

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Connection(ConnectionId),
    Listener,
}

#[derive(Debug)]
pub(crate) struct Attention {
    sources: Mutex<Vec<Source>>,
    notify: Notify,
    wanted: AtomicBool,
}

impl Attention {
    pub(crate) fn new() -> Arc<Attention> {
        Arc::new(Attention { sources: Mutex::new(Vec::new()), notify: Notify::new(), wanted: AtomicBool::new(false) })
    }

    pub(crate) fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
        self.notify.notify_one();
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// What has something to say, each source once or more.
    pub(crate) fn take(&self) -> Vec<Source> {
        std::mem::take(&mut *self.sources.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns when there was a call or a wish since the last return.
    pub(crate) async fn called(&self) {
        self.notify.notified().await;
    }

    fn call(&self, source: Source) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
        self.notify.notify_one();
    }
}

/// Calls the service thread to one source. As a [`Waker`] it is what sockets wake.
#[derive(Debug)]
pub(crate) struct Bell {
    source: Source,
    attention: Arc<Attention>,
    /// Whether the call waits to be heard. Several calls are one.
    rung: AtomicBool,
}

impl Bell {
    pub(crate) fn new(source: Source, attention: Arc<Attention>) -> Arc<Bell> {
        Arc::new(Bell { source, attention, rung: AtomicBool::new(false) })
    }

    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.attention.call(self.source);
        }
    }

    /// Before the source is looked at: what happens from now on rings again.
    pub(crate) fn heard(&self) {
        self.rung.store(false, Ordering::Release);
    }

    pub(crate) fn waker(self: &Arc<Bell>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        self.ring();
    }
}
