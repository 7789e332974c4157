//! Rule 4: the coordinator looks at a key lock where it cannot hear who holds it.
//!
//! It looks by taking the lock. What is orphaned and who rejoins is noted while the lock is held, since a leader that holds
//! it cannot be among them. The lock is let go at once. Then what the connections have already received is read, because the dead
//! may have landed before they died; then only what was noted is decided.

use super::{Action, Coordinator, Party, Ticket, Time};
use crate::key::Key;
use crate::protocol::Response;
use crate::safeguards::{Safeguard, on};
use flight_fencing::FencingToken;
use std::time::Duration;

/// The wait before the second look. The first comes at once.
pub(super) const SOONEST: Duration = Duration::from_micros(100);

/// The longest wait between two looks.
const LATEST: Duration = Duration::from_millis(10);

/// The schedule of one key's looks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    /// The wait after the next look.
    pub(super) interval: Duration,
    /// `None`: a look is under way.
    pub(super) at: Option<Time>,
}

/// What was orphaned and who rejoined what, while the lock was held by the look.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Noted {
    pub(super) orphan: Option<FencingToken>,
    pub(super) rejoining: Vec<(Party, FencingToken)>,
}

impl Noted {
    fn is_empty(&self) -> bool {
        self.orphan.is_none() && self.rejoining.is_empty()
    }
}

impl Coordinator {
    /// Begins or ends the watch of a key, as its state needs it.
    pub(super) fn settle_watch(&mut self, now: Time, key: &Key) {
        let Some(state) = self.keys.get(key) else {
            return;
        };
        if !state.needs_watch() || !on(Safeguard::WatchTheLock) {
            self.unwatch(key);
        } else if state.watch.is_none() {
            self.schedule(key, Watch { interval: SOONEST * 2, at: Some(now + SOONEST) });
        }
    }

    /// Something happened that may have freed the lock: look at once.
    pub(super) fn wake_watch(&mut self, now: Time, key: &Key) {
        self.settle_watch(now, key);
        let Some(watch) = self.keys.get(key).and_then(|state| state.watch.clone()) else {
            return;
        };
        if watch.at.is_some() {
            self.schedule(key, Watch { interval: SOONEST, at: Some(now) });
            self.look_at_due(now);
        }
    }

    pub(super) fn unwatch(&mut self, key: &Key) {
        let watch = self.keys.get_mut(key).and_then(|state| state.watch.take());
        if let Some(at) = watch.and_then(|watch| watch.at) {
            self.looks.remove(&(at, key.clone()));
        }
    }

    pub(super) fn schedule(&mut self, key: &Key, watch: Watch) {
        self.unwatch(key);
        if let Some(at) = watch.at {
            self.looks.insert((at, key.clone()));
        }
        if let Some(state) = self.keys.get_mut(key) {
            state.watch = Some(watch);
        }
    }

    pub(super) fn look_at_due(&mut self, now: Time) {
        while self.looks.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.looks.pop_first() else {
                return;
            };
            if let Some(watch) = self.keys.get_mut(&key).and_then(|state| state.watch.as_mut()) {
                watch.at = None;
            }
            self.actions.push_back(Action::Probe { key });
        }
    }

    /// The answer to a look. When the lock was free, nobody else can hold it before this returns.
    pub(super) fn handle_probed(&mut self, now: Time, key: &Key, free: bool) {
        let Some(state) = self.keys.get(key) else {
            return;
        };
        let Some(watch) = state.watch.clone().filter(|watch| watch.at.is_none()) else {
            return;
        };
        self.schedule(key, Watch { interval: (watch.interval * 2).min(LATEST), at: Some(now + watch.interval) });
        if !free {
            return;
        }
        let Some(state) = self.keys.get(key) else {
            return;
        };
        let orphan = state.flight.as_ref().filter(|flight| flight.leader.is_none()).map(|flight| flight.token);
        let noted = Noted { orphan, rejoining: state.noted_rejoining() };
        if noted.is_empty() {
            return self.decide_deaths(now, key, &noted);
        }
        self.read_dry_before_death(now, key, noted);
    }

    /// Whoever is noted waits for the dead. The dead may have landed before they died: what was received is read, then it is decided.
    pub(super) fn read_dry_before_death(&mut self, now: Time, key: &Key, noted: Noted) {
        if noted.is_empty() {
            return;
        }
        if !on(Safeguard::ReadDryBeforeDeath) {
            return self.decide_deaths(now, key, &noted);
        }
        let ticket = self.number();
        self.tickets.insert(ticket, Ticket::Death(key.clone(), noted));
        self.actions.push_back(Action::ReadDry { link: None, ticket });
    }

    /// What had been received was read. Whoever was noted and is still there waits for the dead.
    pub(super) fn decide_deaths(&mut self, now: Time, key: &Key, noted: &Noted) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        let mut dead = noted.rejoining.clone();
        if !on(Safeguard::DecideOnlyTheNoted) {
            dead = state.rejoining.iter().map(|(party, token)| (*party, *token)).collect();
        }
        dead.retain(|(party, token)| state.rejoining.get(party) == Some(token));
        for (party, _) in &dead {
            state.rejoining.remove(party);
        }
        let orphaned = state.flight.as_ref().filter(|flight| flight.leader.is_none()).map(|flight| flight.token);
        if orphaned.is_some() && (orphaned == noted.orphan || !on(Safeguard::DecideOnlyTheNoted)) {
            self.end_flight(now, key);
        }
        for (party, token) in dead {
            self.finish(party, Response::Interrupted { id: party.id, token });
        }
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        // Only the first is told: it may be frozen, so the next one's turn comes with the next look.
        if state.flight.is_none()
            && let Some(first) = state.waiting.pop_front()
        {
            self.finish(first.party, Response::Try { id: first.party.id });
        }
        self.settle_watch(now, key);
        self.tidy(key);
    }
}
