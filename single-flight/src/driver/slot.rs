//! Where a call and the driver meet: what the one waits for and the other brings.

use super::work::Work;
use crate::client::{JoinedFlight, Verdict};
use crate::error::WaitingFor;
use crate::lease::Lease;
use crate::lineage::Lineage;
use flight_connection::AttemptError;
use flight_key_lock::LockError;
use std::any::Any;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What only the leader's own call gets of its work's end; joiners get the outcome that travels.
pub(crate) enum OwnEnd {
    /// The work's error, as it was.
    Error(Box<dyn Error + Send + Sync>),
    /// The work's panic, to be resumed.
    Panic(Box<dyn Any + Send>),
    /// The codec's error.
    Encode(Box<dyn Error + Send + Sync>),
    /// The value does not fit into a frame.
    TooLarge { length: usize, limit: usize },
}

/// An error that ends every call that waits.
#[derive(Clone)]
pub(crate) enum SharedError {
    Lock(Arc<LockError>),
    Attempt(Arc<AttemptError>),
}

/// A verdict with what the driver knows beside it.
pub(crate) struct Delivered {
    pub(crate) verdict: Verdict,
    pub(crate) error: Option<SharedError>,
    pub(crate) waiting_for: Option<WaitingFor>,
}

/// Who runs the call's work.
pub(super) enum Runner {
    /// A task on this runtime.
    Runtime(tokio::runtime::Handle, Option<Work>),
    /// The calling thread, when it is given the lease.
    CallingThread,
}

/// What a call that waits is to do next.
pub(crate) enum Step {
    /// Tell `on_join`.
    Joined(JoinedFlight),
    /// Run the work, on this thread.
    Run(Lease),
    /// Return.
    End(Delivered),
}

/// One call's place.
pub(crate) struct Slot {
    pub(super) lineage: Lineage,
    inner: Mutex<Inner>,
}

struct Inner {
    runner: Runner,
    joined: Option<JoinedFlight>,
    lease: Option<Lease>,
    delivered: Option<Delivered>,
    ended: bool,
    own_end: Option<OwnEnd>,
    waker: Option<Waker>,
}

impl Slot {
    pub(super) fn new(lineage: Lineage, runner: Runner) -> Self {
        let inner =
            Inner { runner, joined: None, lease: None, delivered: None, ended: false, own_end: None, waker: None };
        Slot { lineage, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next thing to do. `None`: the waker is woken when there is one.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Step> {
        let mut inner = self.inner();
        if let Some(joined) = inner.joined.take() {
            return Some(Step::Joined(joined));
        }
        if let Some(lease) = inner.lease.take() {
            return Some(Step::Run(lease));
        }
        if let Some(delivered) = inner.delivered.take() {
            return Some(Step::End(delivered));
        }
        if !inner.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            inner.waker = Some(waker.clone());
        }
        None
    }

    /// Whether the verdict is there, or was taken: then there is nothing to withdraw.
    pub(super) fn has_ended(&self) -> bool {
        self.inner().ended
    }

    pub(crate) fn take_own_end(&self) -> Option<OwnEnd> {
        self.inner().own_end.take()
    }

    pub(crate) fn set_own_end(&self, own_end: Option<OwnEnd>) {
        self.inner().own_end = own_end;
    }

    /// The runtime and the work to spawn on it; or the lease is handed to the thread that waits.
    pub(super) fn take_work(&self, lease: Lease) -> Option<(tokio::runtime::Handle, Work, Lease)> {
        let mut inner = self.inner();
        match &mut inner.runner {
            Runner::Runtime(runtime, work) => {
                let runtime = runtime.clone();
                work.take().map(|work| (runtime, work, lease))
            }
            Runner::CallingThread => {
                inner.lease = Some(lease);
                let waker = inner.waker.take();
                drop(inner);
                wake(waker);
                None
            }
        }
    }

    pub(super) fn joined(&self, flight: JoinedFlight) {
        let mut inner = self.inner();
        inner.joined = Some(flight);
        let waker = inner.waker.take();
        drop(inner);
        wake(waker);
    }

    pub(super) fn deliver(&self, delivered: Delivered) {
        let mut inner = self.inner();
        inner.delivered = Some(delivered);
        inner.ended = true;
        let waker = inner.waker.take();
        drop(inner);
        wake(waker);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
