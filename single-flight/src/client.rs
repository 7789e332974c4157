//! The client of one process and directory: decides what each call waits for, what is asked of the coordinator, and what each
//! call hears. It does nothing itself.
//!
//! The driver calls [`Client::handle`] with the time and what happened, then drains [`Client::poll_action`], then sleeps until
//! [`Client::poll_timeout`] and calls `handle` with [`Event::Timeout`].
//!
//! What is absent: the client reads no clock, opens no file and no socket, runs no work, and never looks into a payload. It does
//! not know who is alive. It never removes a lock.
//!
//! # Entries
//! Callers of one key share an [`Entry`](entry::Entry), which has one id at the coordinator and at most one lock.
//!
//! ```text
//!            lock taken            go                 ended              ack          no lease left
//! Trying ───────────────▶ Claiming ───▶ Running ───────────────▶ Landing ───▶ Ended ────────────────▶ (gone)
//!    ▲  │ busy               ▲              │ lock or flight is       │ lost    ▲
//!    │  ▼        joined      │ try          │ not ours, or closed     └─────────┤
//!    Waiting ───────▶ Joined │              ▼                                   │
//!       └────────────────────┘          Lost, Detached ─────────────────────────┘
//! ```
//!
//! # Invariants
//! 1. An entry holds its key's lock in `Claiming`, `Running`, `Landing`, `Lost`, `Detached` and `Ended`, and in no other phase.
//! 2. A work is started at most once for each entry, and only by `go` in `Claiming`.
//! 3. The lock is let go of only when no lease of the entry is left, and after `ack`, a loss or a close: rule 1.
//! 4. A call attaches to an entry only when nothing about it was asked of the coordinator yet, or when the entry's own work
//!    leads it. So the flight that a call gets had not ended when the call began.
//! 5. On a new connection claims and landings are said before joins and rejoins: rule 10.
//! 6. Every call hears exactly one verdict, or left.

mod answers;
mod calls;
mod entry;
mod link;
mod work;

use crate::key::Key;
use crate::outcome::Outcome;
use crate::protocol::{Rejection, Request, RequestId, Response};
use crate::status::{HeldStatus, StatusReport};
use entry::{Entry, Phase};
use flight_fencing::{Epoch, FencingToken};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub use crate::coordinator::Time;

/// One call of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// The handle that a call was made with: what one handle closes, others keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// An error that the driver keeps, by number: the machine only passes it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorId(pub u64);

/// A call as the machine needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewCall {
    /// Its number, never used before.
    pub call: CallId,
    /// The handle that it was made with.
    pub owner: OwnerId,
    /// The key.
    pub key: Key,
    /// The codec of its value.
    pub codec: String,
    /// What it calls itself.
    pub label: String,
    /// When it waits no longer.
    pub deadline: Option<Time>,
}

/// Everything that can happen to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Somebody calls.
    Call(NewCall),
    /// A caller is not interested any more.
    Leave {
        /// The call.
        call: CallId,
    },
    /// The answer to [`Action::TryLock`].
    Locked {
        /// The entry.
        entry: RequestId,
        /// Whether the driver holds the lock for the entry now.
        look: Look,
    },
    /// The answer to [`Action::CheckLock`].
    LockChecked {
        /// The entry.
        entry: RequestId,
        /// Whether the locked file is still the one at its path.
        current: bool,
    },
    /// The connection to a coordinator stands, and its handshake is done.
    Linked {
        /// The epoch of its term.
        epoch: Epoch,
    },
    /// The connection ended, and everything that it had received was handled before.
    Unlinked,
    /// The coordinator said something.
    Received(Response),
    /// An attempt to reach or to become a coordinator failed. There will be another.
    AttemptFailed {
        /// What to tell those who wait.
        error: ErrorId,
        /// Whether another attempt would end in the same way.
        fatal: bool,
    },
    /// The work ended with this outcome.
    Ended {
        /// The entry.
        entry: RequestId,
        /// The outcome.
        outcome: Outcome,
    },
    /// The work ended without a result: its task was aborted, or its runtime dropped.
    Aborted {
        /// The entry.
        entry: RequestId,
    },
    /// The last lease of the entry's work was dropped.
    LeaseDropped {
        /// The entry.
        entry: RequestId,
    },
    /// The `land` frame that was sent with `written` is wholly in the kernel. Not said in the coordinator's own process: there the
    /// acknowledgement tells.
    LandWritten {
        /// The entry.
        entry: RequestId,
    },
    /// The kernel took some of the bytes that wait for it.
    Progress,
    /// The directory's path leads to another directory now. Every lock is in the old one.
    DirectoryReplaced,
    /// A handle closes.
    Close {
        /// The handle.
        owner: OwnerId,
    },
    /// Somebody wants to know what is in flight.
    AskStatus {
        /// A number for the answer.
        ticket: u64,
    },
    /// The time of `poll_timeout` has come.
    Timeout,
}

/// What a look at a key lock found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// It was free, and is taken for the entry now.
    Taken,
    /// Somebody holds it.
    Busy,
    /// It could not be looked at.
    Failed(ErrorId),
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Try the key's lock once, keep it for the entry, say [`Event::Locked`].
    TryLock {
        /// The entry.
        entry: RequestId,
        /// The key.
        key: Key,
    },
    /// Let go of the entry's lock.
    Unlock {
        /// The entry.
        entry: RequestId,
    },
    /// Compare the entry's locked file with its path, say [`Event::LockChecked`].
    CheckLock {
        /// The entry.
        entry: RequestId,
    },
    /// Send a request to the coordinator.
    Send {
        /// The request.
        request: Request,
        /// Say [`Event::LandWritten`] for this entry when the frame is wholly in the kernel.
        written: Option<RequestId>,
    },
    /// Run the work of this call, with a lease on the entry.
    Start {
        /// The entry.
        entry: RequestId,
        /// The call whose work it is.
        call: CallId,
        /// The flight's token.
        token: FencingToken,
    },
    /// The call joined a flight: tell its `on_join`.
    Joined {
        /// The call.
        call: CallId,
        /// The flight.
        flight: JoinedFlight,
    },
    /// The end of a call.
    Deliver {
        /// The call.
        call: CallId,
        /// How it ended.
        verdict: Verdict,
    },
    /// Fire the lost signal of the entry's lease.
    LoseLease {
        /// The entry.
        entry: RequestId,
    },
    /// Whether a coordinator is needed.
    Want(bool),
    /// Everything that the handle had landed is acknowledged.
    Closed {
        /// The handle.
        owner: OwnerId,
    },
    /// The coordinator is connected and has not answered since then.
    Silent {
        /// When it was asked.
        since: Time,
    },
    /// The coordinator answers again.
    Heard,
    /// The answer to [`Event::AskStatus`]. `None`: there is no coordinator, or it does not answer.
    Status {
        /// The number of the question.
        ticket: u64,
        /// What the coordinator said.
        report: Option<StatusReport>,
    },
}

/// The flight that a call joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinedFlight {
    /// Its token.
    pub token: FencingToken,
    /// The leader's process id, in its own namespace.
    pub pid: u32,
    /// What the leader calls itself.
    pub label: String,
    /// Since when it has been running, by this machine's time.
    pub since: Time,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// With the outcome of a flight.
    Landed {
        /// The flight's token.
        token: FencingToken,
        /// The outcome.
        outcome: Outcome,
        /// Whether another call's work was the flight.
        joined: bool,
    },
    /// The flight that it had joined ended without an outcome.
    Interrupted {
        /// The flight's token.
        token: FencingToken,
    },
    /// Its own work ended, after the lease was lost.
    LeaseLost {
        /// The flight's token.
        token: FencingToken,
    },
    /// Its time ran out.
    TimedOut {
        /// What it waited for.
        waited_for: WaitedFor,
    },
    /// The handle was closed.
    Closed,
    /// The coordinator refused it.
    Rejected(Rejection),
    /// The coordinator does not know a request that the call needs.
    Unsupported,
    /// The key's lock could not be tried.
    LockFailed(ErrorId),
    /// No coordinator can be reached or elected.
    Unavailable(ErrorId),
}

/// What a call waited for when its time ran out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WaitedFor {
    /// For a coordinator, or for an answer of the one that there is.
    Coordinator,
    /// For whoever holds the key's lock and has not said what it runs.
    KeyLock,
    /// For the flight that it had joined.
    Flight(JoinedFlight),
}

/// How often a leader's lock is compared with its path.
pub const CHECK: Duration = Duration::from_secs(1);

/// The leader's own call waits no longer than this for a kernel that takes nothing of its landing.
pub const TELL: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    entry: RequestId,
    owner: OwnerId,
    label: String,
    deadline: Option<Time>,
}

/// The state machine. See the module's page for the order of the calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pid: u32,
    calls: BTreeMap<CallId, Call>,
    entries: BTreeMap<RequestId, Entry>,
    by_key: BTreeMap<Key, Vec<RequestId>>,
    deadlines: BTreeSet<(Time, CallId)>,
    /// When something is due for an entry: a look at its lock, or the word to its leader.
    timers: BTreeSet<(Time, RequestId)>,
    closing: BTreeSet<OwnerId>,
    link: link::LinkState,
    next_id: RequestId,
    actions: VecDeque<Action>,
}

impl Client {
    /// A client that is not connected. `pid` is what it tells others of its process.
    pub fn new(pid: u32) -> Self {
        Client {
            pid,
            calls: BTreeMap::new(),
            entries: BTreeMap::new(),
            by_key: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            timers: BTreeSet::new(),
            closing: BTreeSet::new(),
            link: link::LinkState::default(),
            next_id: 1,
            actions: VecDeque::new(),
        }
    }

    /// Takes what happened. What follows from it is in [`poll_action`](Self::poll_action).
    pub fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Call(call) => self.handle_call(call),
            Event::Leave { call } => self.handle_leave(call),
            Event::Locked { entry, look } => self.handle_locked(entry, look),
            Event::LockChecked { entry, current } => self.handle_lock_checked(now, entry, current),
            Event::Linked { epoch } => self.handle_linked(now, epoch),
            Event::Unlinked => self.handle_unlinked(),
            Event::Received(response) => self.handle_response(now, response),
            Event::AttemptFailed { error, fatal } => self.handle_attempt_failed(now, error, fatal),
            Event::Ended { entry, outcome } => self.handle_ended(now, entry, outcome),
            Event::Aborted { entry } => self.handle_aborted(now, entry),
            Event::LeaseDropped { entry } => self.handle_lease_dropped(entry),
            Event::LandWritten { entry } => self.tell_leader(entry),
            Event::Progress => self.handle_progress(now),
            Event::DirectoryReplaced => self.handle_directory_replaced(),
            Event::Close { owner } => self.handle_close(owner),
            Event::AskStatus { ticket } => self.handle_ask_status(now, ticket),
            Event::Timeout => self.handle_timeout(now),
        }
        self.settle_want(now);
    }

    /// The next thing to do, in order. `None`: all is done until the next event.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call `handle` with [`Event::Timeout`], whatever else happens. `None`: never.
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let timer = self.timers.first().map(|(at, _)| *at);
        [deadline, timer, self.link.timeout()].into_iter().flatten().min()
    }

    /// Whether the call is still waiting for its verdict.
    pub fn is_pending(&self, call: CallId) -> bool {
        self.calls.contains_key(&call)
    }

    /// How many entries there are, in whatever phase: zero when nothing is asked, run, landed or held.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The key of an entry.
    pub(crate) fn key(&self, entry: RequestId) -> Option<Key> {
        self.entries.get(&entry).map(|entry| entry.key.clone())
    }

    /// What this process holds.
    pub fn held(&self) -> Vec<HeldStatus> {
        let mut held: Vec<HeldStatus> = self.entries.values().filter_map(Entry::held).collect();
        held.sort_by(|one, other| (&one.key, one.token).cmp(&(&other.key, other.token)));
        held
    }

    /// The highest epoch that a coordinator of this client had.
    pub fn highest_epoch(&self) -> Option<Epoch> {
        self.link.highest_epoch
    }

    fn handle_timeout(&mut self, now: Time) {
        while self.deadlines.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, call)) = self.deadlines.pop_first() else {
                break;
            };
            self.time_out(call);
        }
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = self.timers.pop_first() else {
                break;
            };
            self.handle_entry_due(now, id);
        }
        self.handle_link_due(now);
    }

    fn send(&mut self, request: Request) {
        if self.link.is_up() {
            self.actions.push_back(Action::Send { request, written: None });
        }
    }

    /// Puts the entry into a phase, and sets what is due for it.
    fn set_phase(&mut self, id: RequestId, phase: Phase) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if let Some(at) = entry.phase.due() {
            self.timers.remove(&(at, id));
        }
        self.link.count(&entry.phase, &phase);
        if let Some(at) = phase.due() {
            self.timers.insert((at, id));
        }
        entry.phase = phase;
    }

    /// The entry is gone. Its calls must have been told before.
    fn remove_entry(&mut self, id: RequestId) {
        self.set_phase(id, Phase::Trying);
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if let Some(ids) = self.by_key.get_mut(&entry.key) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_key.remove(&entry.key);
            }
        }
    }

    /// Tells one call how it ended, and forgets it.
    fn deliver(&mut self, call: CallId, verdict: Verdict) {
        let Some(known) = self.calls.remove(&call) else {
            return;
        };
        if let Some(deadline) = known.deadline {
            self.deadlines.remove(&(deadline, call));
        }
        self.actions.push_back(Action::Deliver { call, verdict });
    }

    /// Tells all calls that wait with the entry.
    fn deliver_all(&mut self, id: RequestId, verdict: &Verdict) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        for call in std::mem::take(&mut entry.calls) {
            self.deliver(call, verdict.clone());
        }
    }
}

#[cfg(test)]
mod tests;
