//! A work in its task: its lease, its lineage, its panic, and its end.

use super::service::Service;
use super::slot::{OwnEnd, Slot};
use crate::client::Event;
use crate::lease::Lease;
use crate::lineage::Lineage;
use crate::outcome::{Failure, Outcome};
use crate::protocol::RequestId;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::{Child, Command};
use std::sync::Arc;
use std::task::Poll;

/// A work that was not started, with its type forgotten: it ends in what travels, and in what only its own call gets.
pub(crate) type Work = Box<dyn FnOnce(Lease) -> WorkFuture + Send>;

pub(crate) type WorkFuture = Pin<Box<dyn Future<Output = (Outcome, Option<OwnEnd>)> + Send>>;

/// What the clones of a lease share. Its end tells the machine that nobody needs the key lock any more.
pub(crate) struct Hold {
    service: Arc<Service>,
    entry: RequestId,
    lineage: Lineage,
}

impl Hold {
    pub(super) fn new(service: Arc<Service>, entry: RequestId, lineage: Lineage) -> Self {
        Hold { service, entry, lineage }
    }

    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let lock = self.service.lock_of(self.entry).ok_or_else(|| {
            io::Error::other("the key lock is gone: the lease was lost, or the handle is from before a fork")
        })?;
        lock.spawn(command)
    }

    /// The work ended, on the calling thread.
    pub(crate) fn end(&self, outcome: Outcome) {
        self.service.enter(Event::Ended { entry: self.entry, outcome });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.service.enter(Event::LeaseDropped { entry: self.entry });
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("entry", &self.entry).finish_non_exhaustive()
    }
}

/// Says that the work was aborted, unless it came to its end: rule 13.
struct AbortGuard {
    hold: Option<(Arc<Service>, RequestId)>,
}

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if let Some((service, entry)) = self.hold.take() {
            service.enter(Event::Aborted { entry });
        }
    }
}

/// Spawns the work on its caller's runtime. A runtime that is gone drops it at once, which lands `aborted`.
pub(super) fn spawn(runtime: &tokio::runtime::Handle, slot: Arc<Slot>, work: Work, lease: Lease) {
    let (service, entry, lineage) = (lease.hold.service.clone(), lease.hold.entry, lease.hold.lineage.clone());
    let mut guard = AbortGuard { hold: Some((service, entry)) };
    runtime.spawn(async move {
        let (outcome, own_end) = lineage.scope(run_to_end(work, lease)).await;
        slot.set_own_end(own_end);
        if let Some((service, entry)) = guard.hold.take() {
            service.enter(Event::Ended { entry, outcome });
        }
    });
}

/// Runs the work; a panic becomes its end.
async fn run_to_end(work: Work, lease: Lease) -> (Outcome, Option<OwnEnd>) {
    // The work may panic before it returns a future, too.
    let mut future = match catch_unwind(AssertUnwindSafe(|| work(lease))) {
        Ok(future) => future,
        Err(payload) => return end_of_panic(payload),
    };
    let polled = std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(end)) => Poll::Ready(Ok(end)),
        Err(payload) => Poll::Ready(Err(payload)),
    })
    .await;
    // What the future still owns goes before its end is told: its destructors belong to the work.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
    match (polled, dropped) {
        (Ok(end), Ok(())) => end,
        (Err(payload), _) | (Ok(_), Err(payload)) => end_of_panic(payload),
    }
}

pub(crate) fn end_of_panic(payload: Box<dyn std::any::Any + Send>) -> (Outcome, Option<OwnEnd>) {
    (Outcome::failure(&Failure::of_panic(&*payload)), Some(OwnEnd::Panic(payload)))
}
