//! One directory in one process: the machines behind a lock, and how everybody enters them.

use super::effects::Effects;
use super::slot::{Runner, Slot};
use super::state::{Owner, State};
use crate::client::{CallId, Client, Event, NewCall, OwnerId};
use crate::coordinator::Time;
use crate::error::{CloseError, RunError, WaitingFor};
use crate::key::Key;
use crate::lineage::Lineage;
use crate::protocol::RequestId;
use crate::status::{Status, StatusReport};
use flight_connection::SupervisorHandle;
use flight_key_lock::KeyLock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};

/// What a handle is opened with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) label: String,
    pub(crate) max_frame: usize,
}

pub(crate) struct Service {
    /// Its number in this process.
    pub(super) number: u64,
    /// The process that opened it. A forked child must not use it.
    pub(super) pid: u32,
    /// The machines' time zero.
    origin: Instant,
    pub(super) state: Mutex<State>,
    pub(super) supervisor: SupervisorHandle,
    /// Wakes the service thread.
    pub(super) wake: Notify,
    /// True when the service thread has disconnected and let go of its term.
    pub(super) stopped: watch::Sender<bool>,
}

impl Service {
    pub(super) fn new(number: u64, state: State, supervisor: SupervisorHandle) -> Self {
        let pid = std::process::id();
        let (stopped, _) = watch::channel(false);
        let (state, wake) = (Mutex::new(state), Notify::new());
        Service { number, pid, origin: Instant::now(), state, supervisor, wake, stopped }
    }

    pub(crate) fn now(&self) -> Time {
        self.origin.elapsed()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process is a fork of the one that opened the service.
    pub(crate) fn is_forked(&self) -> bool {
        self.pid != std::process::id()
    }

    /// Lets the client handle one event, and does what follows.
    pub(crate) fn enter(self: &Arc<Self>, event: Event) {
        self.with(|state, now| state.client.handle(now, event));
    }

    /// Lets the machines handle something, then does what they want done: first under the lock, then, unlocked, what may run
    /// other people's code or take its time. In a forked child nothing happens: the lock may be held by a thread that is not there.
    pub(super) fn with(self: &Arc<Self>, handle: impl FnOnce(&mut State, Time)) {
        self.with_effects(|state, now, _| handle(state, now));
    }

    /// The same, for what adds effects of its own.
    pub(super) fn with_effects(self: &Arc<Self>, handle: impl FnOnce(&mut State, Time, &mut Effects)) {
        if self.is_forked() {
            return;
        }
        let mut effects = Effects::default();
        {
            let now = self.now();
            let mut state = self.state();
            handle(&mut state, now, &mut effects);
            state.pump(self, now, &mut effects);
        }
        self.run_effects(effects);
    }

    fn run_effects(self: &Arc<Self>, mut effects: Effects) {
        loop {
            let Effects { list, touched, wake_thread } = std::mem::take(&mut effects);
            if wake_thread {
                self.wake.notify_one();
            }
            // Before the effects: a leader that is told may end its process at once, with what is not in the sockets yet.
            let mut written = Vec::new();
            for (connection, marked) in touched {
                let taken = connection.flush();
                if marked || taken.backlog > 0 {
                    written.push((connection.id(), taken));
                }
            }
            for effect in list {
                // A waker or a destructor of somebody else's that panics must cost neither the other calls nor the service thread.
                if catch_unwind(AssertUnwindSafe(|| effect.run(self))).is_err() {
                    tracing::error!("a waker, a runtime or a destructor panicked");
                }
            }
            if written.is_empty() {
                return;
            }
            let now = self.now();
            let mut state = self.state();
            for (connection, taken) in written {
                state.settle(now, connection, taken);
            }
            state.pump(self, now, &mut effects);
        }
    }

    /// The key of an entry, and the lineage of its work.
    pub(super) fn nest(&self, client: &Client, entry: RequestId, outer: &Lineage) -> (Key, Lineage) {
        let key = client.key(entry).unwrap_or_else(|| Key::from(""));
        let lineage = outer.nest(self.number, key.clone());
        (key, lineage)
    }

    pub(crate) fn directory(&self) -> PathBuf {
        if self.is_forked() { PathBuf::new() } else { self.state().directory.path().to_owned() }
    }

    pub(super) fn lock_of(&self, entry: RequestId) -> Option<Arc<KeyLock>> {
        if self.is_forked() { None } else { self.state().locks.get(&entry).cloned() }
    }
}

/// A handle of the application. What one closes, the others keep.
pub(crate) struct Handle {
    pub(crate) service: Arc<Service>,
    owner: OwnerId,
    pub(crate) settings: Settings,
    closed: std::sync::atomic::AtomicBool,
}

impl Handle {
    /// `None`: the service ends, so another one is needed.
    pub(super) fn new(service: Arc<Service>, settings: Settings) -> Option<Self> {
        let owner = {
            let mut state = service.state();
            if state.stopping {
                return None;
            }
            let owner = OwnerId(state.number());
            state.owners.insert(owner, Owner::Open);
            owner
        };
        Some(Handle { service, owner, settings, closed: std::sync::atomic::AtomicBool::new(false) })
    }

    fn is_closed(&self) -> bool {
        self.closed.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Starts a call. Its slot and number are in the ticket.
    pub(super) fn begin(
        &self,
        key: &Key,
        codec: &str,
        wait: Option<Duration>,
        lineage: &Lineage,
        runner: Runner,
    ) -> Result<Ticket, RunError> {
        let service = &self.service;
        if service.is_forked() {
            return Err(RunError::Forked { key: key.clone() });
        }
        if self.is_closed() {
            return Err(RunError::Closed { key: key.clone() });
        }
        if lineage.contains(service.number, key) {
            return Err(RunError::Reentrant { key: key.clone() });
        }
        let slot = Arc::new(Slot::new(lineage.clone(), runner));
        let mut id = CallId(0);
        let mut closed = false;
        service.with(|state, now| {
            // Again, under the lock: a close may have come between, and nobody would end a call that begins after it.
            closed = self.is_closed();
            if closed {
                return;
            }
            id = CallId(state.number());
            state.slots.insert(id, slot.clone());
            let call = NewCall {
                call: id,
                owner: self.owner,
                key: key.clone(),
                codec: codec.to_owned(),
                label: self.settings.label.clone(),
                deadline: wait.and_then(|wait| now.checked_add(wait)),
            };
            state.client.handle(now, Event::Call(call));
        });
        if closed {
            return Err(RunError::Closed { key: key.clone() });
        }
        Ok(Ticket { service: service.clone(), call: id, slot })
    }

    /// Starts a call whose work runs as a task of the current runtime.
    pub(crate) fn begin_task(
        &self,
        key: &Key,
        codec: &str,
        wait: Option<Duration>,
        lineage: &Lineage,
        work: super::work::Work,
    ) -> Result<Ticket, RunError> {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Err(RunError::NoRuntime { key: key.clone() });
        };
        self.begin(key, codec, wait, lineage, Runner::Runtime(runtime, Some(work)))
    }

    /// Starts a call whose work runs on the calling thread.
    pub(crate) fn begin_here(
        &self,
        key: &Key,
        codec: &str,
        wait: Option<Duration>,
        lineage: &Lineage,
    ) -> Result<Ticket, RunError> {
        self.begin(key, codec, wait, lineage, Runner::CallingThread)
    }

    /// Closes the handle; the receiver hears when all is acknowledged. `None`: it was closed before.
    pub(crate) fn close(&self) -> Result<Option<oneshot::Receiver<()>>, CloseError> {
        if self.service.is_forked() {
            return Err(CloseError::Forked);
        }
        if self.closed.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return Ok(None);
        }
        let (closer, closed) = oneshot::channel();
        self.service.with(|state, now| {
            state.closers.insert(self.owner, closer);
            state.client.handle(now, Event::Close { owner: self.owner });
        });
        Ok(Some(closed))
    }

    /// Lets go of the service, after a close. Resolves when it has disconnected, if no other handle uses it.
    pub(crate) async fn leave(&self) {
        let last = {
            let mut state = self.service.state();
            state.owners.remove(&self.owner);
            state.closers.remove(&self.owner);
            // A handle that is opened from now on starts another service: this one must not be kept from its end.
            state.stopping |= state.is_unused();
            state.stopping
        };
        self.service.wake.notify_one();
        if last {
            // The sender lives in the service, so waiting cannot fail.
            drop(self.service.stopped.subscribe().wait_for(|stopped| *stopped).await);
        }
    }

    /// The same, after a close that was given a limit. Not in time: the error says what was waited for.
    pub(crate) async fn leave_after(&self, limit: Duration, in_time: bool) -> Result<(), CloseError> {
        let waiting_for = {
            let state = self.service.state();
            WaitingFor::Coordinator {
                pid: state.coordinator_pid(),
                state: state.describe_obstacle("has not acknowledged it yet"),
            }
        };
        self.leave().await;
        if in_time { Ok(()) } else { Err(CloseError::Unacknowledged { waited: limit, waiting_for }) }
    }

    /// Asks the coordinator what is in flight.
    pub(crate) async fn status(&self) -> Status {
        if self.service.is_forked() {
            // The lock of the state may be held by a thread that only the parent has.
            let state = "is not known: the handle is from before a fork".to_owned();
            return Status { pid: None, state, report: None, held: Vec::new() };
        }
        let (asker, answer) = oneshot::channel::<Option<StatusReport>>();
        self.service.with(|state, now| {
            let ticket = state.number();
            state.askers.insert(ticket, asker);
            state.client.handle(now, Event::AskStatus { ticket });
        });
        let report = answer.await.unwrap_or(None);
        let state = self.service.state();
        Status {
            pid: state.coordinator_pid(),
            state: state.describe_phase().to_owned(),
            report,
            held: state.client.held(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.service.is_forked() {
            return;
        }
        if let Some(owner) = self.service.state().owners.get_mut(&self.owner) {
            *owner = Owner::Dropped;
        }
        self.service.wake.notify_one();
    }
}

/// A call that has started. Its end withdraws it, unless its verdict is there.
pub(crate) struct Ticket {
    service: Arc<Service>,
    call: CallId,
    slot: Arc<Slot>,
}

impl Ticket {
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.slot.has_ended() {
            self.service.with(|state, now| {
                state.client.handle(now, Event::Leave { call: self.call });
                state.slots.remove(&self.call);
            });
        }
    }
}
