//! Single-flight for programs without an async runtime: the work runs on the calling thread.

use crate::codec::Codec;
use crate::driver::{OwnEnd, Step, end_of_panic};
use crate::error::{CloseError, OpenError, RunError};
use crate::key::Key;
use crate::lease::Lease;
use crate::lineage::Lineage;
use crate::run::{Flight, Joined, Reading, end_of_work};
use crate::single_flight::Options;
use crate::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A handle on the flights of a directory, for threads. It shares flights with [`crate::SingleFlight`]. The work runs on the calling
/// thread, so it does not outlive its caller.
pub struct SingleFlight<T> {
    inner: crate::SingleFlight<T>,
}

impl<T: Serialize + DeserializeOwned + Send + 'static> SingleFlight<T> {
    /// Opens the flights of a directory, with JSON as the encoding of values.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(SingleFlight { inner: crate::SingleFlight::open(directory)? })
    }

    /// Opens the flights of a directory, with options.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_with(directory: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        Ok(SingleFlight { inner: crate::SingleFlight::open_with(directory, options)? })
    }
}

impl<T> SingleFlight<T> {
    /// The same handle for values of another type or encoding, over the same connection.
    pub fn with_codec<U>(&self, codec: impl Codec<U> + 'static) -> SingleFlight<U> {
        SingleFlight { inner: self.inner.with_codec(codec) }
    }

    /// Runs `work` for `key` on this thread, or waits for the flight of the key that is in progress.
    ///
    /// The work needs neither `Send` nor `'static`: it borrows what it likes. If this thread unwinds or ends in the middle of it, the
    /// joiners hear of the panic. Nothing happens before [`Run::wait`].
    pub fn run<'a, W, E>(&'a self, key: impl Into<String>, work: W) -> Run<'a, T, W>
    where
        W: FnOnce(&Lease) -> Result<T, E>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let lineage = Lineage::current();
        Run { flights: &self.inner, key: Key::from(key), work, on_join: None, wait_timeout: None, lineage }
    }

    /// What is in flight. See [`crate::SingleFlight::status`].
    pub fn status(&self) -> Status {
        block_on(self.inner.status())
    }

    /// Ends the handle and its clones. See [`crate::SingleFlight::close`].
    ///
    /// # Errors
    /// See [`CloseError`].
    pub fn close(&self) -> Result<(), CloseError> {
        block_on(self.inner.close())
    }

    /// Like [`close`](SingleFlight::close), and gives up waiting after `limit`. See [`crate::SingleFlight::close_timeout`].
    ///
    /// # Errors
    /// See [`CloseError`].
    pub fn close_timeout(&self, limit: Duration) -> Result<(), CloseError> {
        let handle = self.inner.handle();
        let Some(closed) = handle.close()? else { return Ok(()) };
        let in_time = block_on_until(closed, Instant::now().checked_add(limit)).is_some();
        block_on(handle.leave_after(limit, in_time))
    }
}

impl<T> Clone for SingleFlight<T> {
    fn clone(&self) -> Self {
        SingleFlight { inner: self.inner.clone() }
    }
}

impl<T> fmt::Debug for SingleFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

type OnJoin<'a> = Box<dyn FnOnce(&Joined) + 'a>;

/// A call that has not started. [`wait`](Run::wait) starts it; dropped, it does nothing.
#[must_use = "a call does nothing before `wait`"]
pub struct Run<'a, T, W> {
    flights: &'a crate::SingleFlight<T>,
    key: Key,
    work: W,
    on_join: Option<OnJoin<'a>>,
    wait_timeout: Option<Duration>,
    lineage: Lineage,
}

impl<T, W> fmt::Debug for Run<'_, T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("key", &self.key).field("wait_timeout", &self.wait_timeout).finish_non_exhaustive()
    }
}

impl<'a, T, W> Run<'a, T, W> {
    /// Calls `listener` once when this call joins another call's flight. It runs on this thread.
    pub fn on_join(mut self, listener: impl FnOnce(&Joined) + 'a) -> Self {
        self.on_join = Some(Box::new(listener));
        self
    }

    /// Limits the time until this call's own work begins or the outcome of a joined flight arrives.
    pub fn wait_timeout(mut self, limit: Duration) -> Self {
        self.wait_timeout = Some(limit);
        self
    }

    /// Says that this call is made from inside the work of `lease`, although on another thread.
    pub fn within(mut self, lease: &Lease) -> Self {
        self.lineage = lease.hold.lineage().clone();
        self
    }

    /// Runs the work on this thread, or waits for another call's.
    ///
    /// # Errors
    /// See [`RunError`].
    ///
    /// # Panics
    /// With the work's panic, after the joiners were told.
    pub fn wait<E>(self) -> Result<Flight<T>, RunError>
    where
        W: FnOnce(&Lease) -> Result<T, E>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let Run { flights, key, work, mut on_join, wait_timeout, lineage } = self;
        let codec = &**flights.codec();
        let ticket = flights.handle().begin_here(&key, codec.name(), wait_timeout, &lineage)?;
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut work = Some(work);
        let mut own: Option<OwnEnd> = None;
        loop {
            match ticket.slot().poll(&waker) {
                None => std::thread::park(),
                Some(Step::Joined(flight)) => {
                    if let Some(listener) = on_join.take() {
                        listener(&flights.describe(&flight));
                    }
                }
                Some(Step::Run(lease)) => {
                    let Some(work) = work.take() else { continue };
                    let limit = flights.value_limit(&key);
                    let run =
                        || lease.hold.lineage().clone().scope_blocking(|| end_of_work(codec, limit, work(&lease)));
                    let (outcome, end) = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(end_of_panic);
                    own = end;
                    lease.hold.end(outcome);
                }
                Some(Step::End(delivered)) => {
                    drop(ticket);
                    let reading = Reading { key: &key, codec, wait_timeout };
                    return reading.conclude(flights, delivered, own);
                }
            }
        }
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future that needs no runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    block_on_until(future, None).expect("without a deadline it waits for the output")
}

/// `None`: the deadline came first.
fn block_on_until<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            None => std::thread::park(),
            Some(left) if left.is_zero() => return None,
            Some(left) => std::thread::park_timeout(left),
        }
    }
}
