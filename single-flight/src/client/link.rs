//! The connection to the coordinator: what is said again on a new one, whether the coordinator answers, and what its absence means.

use super::entry::{Failing, Phase};
use super::{Action, Client, ErrorId, Time, Verdict};
use crate::protocol::{Request, RequestId};
use crate::safeguards::{Safeguard, on};
use crate::status::StatusReport;
use flight_fencing::Epoch;
use std::collections::BTreeMap;
use std::time::Duration;

/// A coordinator that is asked and says nothing for so long is reported. It is never robbed.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// The longest pause between two questions whether the coordinator is there, while something waits for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Passing failures (a full disk, no descriptors left) are reported to those who wait after so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the client knows of its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LinkState {
    up: bool,
    pub(super) highest_epoch: Option<Epoch>,
    failing: Option<Failing>,
    wanted: bool,
    /// Entries that wait for a word of the coordinator.
    expecting: usize,
    /// Entries that cannot go on without one.
    needing: usize,
    ping: Ping,
    /// Who asked for the status, under which id, and until when it is waited for.
    status: BTreeMap<RequestId, (u64, Time)>,
}

/// The question whether the coordinator is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Ping {
    /// The pause before the next question.
    pause: Duration,
    /// When the next question is due.
    next: Option<Time>,
    /// When the one was asked that is not answered.
    asked: Option<Time>,
    silent: bool,
}

impl LinkState {
    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    pub(super) fn is_silent(&self) -> bool {
        self.ping.silent
    }

    /// Keeps the counts of what waits for the coordinator.
    pub(super) fn count(&mut self, old: &Phase, new: &Phase) {
        self.expecting = self.expecting + usize::from(new.expects_answer()) - usize::from(old.expects_answer());
        self.needing = self.needing + usize::from(counts_as_need(new)) - usize::from(counts_as_need(old));
    }

    /// A new call is a new interest in whether the coordinator answers.
    pub(super) fn call_came(&mut self) {
        self.ping.pause = SILENCE;
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        let status = self.status.values().map(|(_, until)| *until).min();
        if !self.up {
            return status;
        }
        let silence = self.ping.asked.filter(|_| !self.ping.silent).map(|asked| asked + SILENCE);
        let ping = self.ping.next.filter(|_| self.expecting > 0 && self.ping.asked.is_none());
        [silence, ping, status].into_iter().flatten().min()
    }
}

/// `Trying` is passed in one turn and every entry ends in it: it is not counted.
fn counts_as_need(phase: &Phase) -> bool {
    phase.needs_coordinator() && *phase != Phase::Trying
}

impl Client {
    /// Rules 10 and 12.
    pub(super) fn handle_linked(&mut self, now: Time, epoch: Epoch) {
        self.link.up = true;
        self.link.failing = None;
        self.link.highest_epoch = self.link.highest_epoch.max(Some(epoch));
        self.link.ping = Ping { pause: SILENCE, next: Some(now + SILENCE), asked: None, silent: false };
        let holds = |phase: &Phase| phase.holds_lock();
        let ids: Vec<RequestId> = self.entries.keys().copied().collect();
        let (claims, joins): (Vec<_>, Vec<_>) =
            ids.into_iter().partition(|id| self.entries.get(id).is_some_and(|entry| holds(&entry.phase)));
        if on(Safeguard::ClaimsFirst) {
            claims.iter().for_each(|id| self.claim_at(*id, Some(now)));
            joins.iter().for_each(|id| self.ask(*id));
        } else {
            joins.iter().for_each(|id| self.ask(*id));
            claims.iter().for_each(|id| self.claim_at(*id, Some(now)));
        }
    }

    /// Asks for an entry that does not hold its key's lock.
    fn ask(&mut self, id: RequestId) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        let key = entry.key.clone();
        match &entry.phase {
            Phase::Waiting { .. } => {
                let codec = entry.codec.clone();
                self.set_phase(id, Phase::Waiting { asked: true });
                self.send(Request::Join { id, key, codec });
            }
            Phase::Joined(flight) => {
                let token = flight.token;
                self.send(Request::Rejoin { id, key, token });
            }
            _ => {}
        }
    }

    pub(super) fn handle_unlinked(&mut self) {
        self.link.up = false;
        if self.link.ping.silent {
            self.actions.push_back(Action::Heard);
        }
        self.link.ping = Ping::default();
        let asked: Vec<RequestId> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.phase == Phase::Waiting { asked: true })
            .map(|(id, _)| *id)
            .collect();
        for id in asked {
            self.set_phase(id, Phase::Waiting { asked: false });
        }
        for (ticket, _) in std::mem::take(&mut self.link.status).into_values() {
            self.actions.push_back(Action::Status { ticket, report: None });
        }
    }

    /// The coordinator said something: it is there.
    pub(super) fn heard(&mut self, now: Time) {
        let ping = &mut self.link.ping;
        if ping.asked.take().is_some() {
            ping.pause = (ping.pause * 2).clamp(SILENCE, LONGEST_PAUSE);
        }
        ping.next = Some(now + ping.pause.max(SILENCE));
        if std::mem::take(&mut ping.silent) {
            self.actions.push_back(Action::Heard);
        }
    }

    pub(super) fn handle_link_due(&mut self, now: Time) {
        let overdue: Vec<RequestId> =
            self.link.status.iter().filter(|(_, (_, until))| *until <= now).map(|(id, _)| *id).collect();
        for id in overdue {
            self.answer_status(id, None);
        }
        if !self.link.up {
            return;
        }
        let (asked, next, silent) = (self.link.ping.asked, self.link.ping.next, self.link.ping.silent);
        match asked {
            Some(since) if !silent && since + SILENCE <= now => {
                self.link.ping.silent = true;
                self.actions.push_back(Action::Silent { since });
            }
            None if self.link.expecting > 0 && next.is_some_and(|at| at <= now) => {
                self.link.ping.asked = Some(now);
                let id = self.take_id();
                self.send(Request::Ping { id });
            }
            _ => {}
        }
    }

    fn take_id(&mut self) -> RequestId {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A failure that will repeat itself ends every call, and a leader's lease: it can never reach a coordinator again. A passing one
    /// ends, after a moment, the calls that have joined nothing; those who joined wait for their leader, who lives.
    pub(super) fn handle_attempt_failed(&mut self, now: Time, error: ErrorId, fatal: bool) {
        let since = self.link.failing.map_or(now, |failing| failing.since);
        self.link.failing = Some(Failing { since, error });
        if !fatal && now - since < PATIENCE {
            return;
        }
        let verdict = Verdict::Unavailable(error);
        let ids: Vec<RequestId> = self.entries.keys().copied().collect();
        for id in ids {
            match self.entries.get(&id).map(|entry| &entry.phase) {
                Some(Phase::Trying | Phase::Claiming { .. } | Phase::Waiting { .. }) => {
                    self.deliver_all(id, &verdict);
                    self.withdraw(id);
                }
                Some(Phase::Joined(_)) if fatal => {
                    self.deliver_all(id, &verdict);
                    self.withdraw(id);
                }
                Some(Phase::Running { .. } | Phase::Landing { .. }) if fatal => self.lose(id),
                _ => {}
            }
        }
    }

    pub(super) fn handle_ask_status(&mut self, now: Time, ticket: u64) {
        if !self.link.up {
            self.actions.push_back(Action::Status { ticket, report: None });
            return;
        }
        let id = self.take_id();
        self.link.status.insert(id, (ticket, now + SILENCE));
        self.send(Request::Status { id });
    }

    pub(super) fn answer_status(&mut self, id: RequestId, report: Option<StatusReport>) {
        if let Some((ticket, _)) = self.link.status.remove(&id) {
            self.actions.push_back(Action::Status { ticket, report });
        }
    }

    /// Says when a coordinator begins or ceases to be needed.
    pub(super) fn settle_want(&mut self, now: Time) {
        let wanted = self.link.needing > 0;
        if wanted != self.link.wanted {
            self.link.wanted = wanted;
            self.actions.push_back(Action::Want(wanted));
            if wanted {
                self.link.ping.next = Some(now + SILENCE);
                self.link.failing = None;
            }
        }
    }
}
