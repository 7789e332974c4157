//! What happens to an entry that holds its key's lock.

use super::entry::{Lead, Phase};
use super::{Action, CHECK, CallId, Client, JoinedFlight, Look, TELL, Time, Verdict};
use crate::outcome::{Failure, Outcome};
use crate::protocol::{Claimant, Request, RequestId};
use crate::safeguards::{Safeguard, on};
use flight_fencing::FencingToken;

impl Client {
    pub(super) fn handle_locked(&mut self, id: RequestId, look: Look) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.phase == Phase::Trying) else {
            // Its callers left while the driver looked.
            if look == Look::Taken {
                self.actions.push_back(Action::Unlock { entry: id });
            }
            return;
        };
        match look {
            Look::Taken => {
                self.set_phase(id, Phase::Claiming { answering: None });
                self.claim(id);
            }
            Look::Busy => {
                let (key, codec) = (entry.key.clone(), entry.codec.clone());
                let asked = self.link.is_up();
                self.set_phase(id, Phase::Waiting { asked });
                self.send(Request::Join { id, key, codec });
            }
            Look::Failed(error) => {
                self.deliver_all(id, &Verdict::LockFailed(error));
                self.remove_entry(id);
            }
        }
    }

    /// Says what the holder of the lock claims, in whatever phase it is.
    pub(super) fn claim(&mut self, id: RequestId) {
        self.claim_at(id, None);
    }

    pub(super) fn claim_at(&mut self, id: RequestId, now: Option<Time>) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let (key, codec, pid) = (entry.key.clone(), entry.codec.clone(), self.pid);
        let oldest = entry.calls.first().copied();
        let mut written = None;
        let request = match &mut entry.phase {
            Phase::Claiming { answering } => {
                let over = answering.take();
                let label =
                    oldest.and_then(|call| self.calls.get(&call)).map(|call| call.label.clone()).unwrap_or_default();
                Request::Lead { id, key, claimant: Claimant { codec, label, pid }, over }
            }
            Phase::Running { lead, answering, .. } => {
                let (token, label) = (lead.token, lead.label.clone());
                let age = now.unwrap_or(lead.since).saturating_sub(lead.since);
                let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                let over = answering.take();
                Request::Reassert { id, key, token, claimant: Claimant { codec, label, pid }, age_ms, over }
            }
            Phase::Landing { lead, outcome, .. } => {
                written = Some(id);
                Request::Land { id, key, token: lead.token, outcome: outcome.clone() }
            }
            _ => return,
        };
        if self.link.is_up() {
            self.actions.push_back(Action::Send { request, written });
        }
    }

    pub(super) fn handle_go(&mut self, now: Time, id: RequestId, token: FencingToken) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if !matches!(entry.phase, Phase::Claiming { .. }) || entry.calls.is_empty() {
            return;
        }
        let call = entry.calls.remove(0);
        entry.leased = true;
        let others = entry.calls.clone();
        let Some(caller) = self.calls.get_mut(&call) else {
            return;
        };
        // The limit is on waiting, never on one's own work.
        if let Some(deadline) = caller.deadline.take() {
            self.deadlines.remove(&(deadline, call));
        }
        let lead = Lead { token, caller: Some(call), owner: caller.owner, label: caller.label.clone(), since: now };
        let flight = self.own_flight(&lead);
        self.set_phase(id, Phase::Running { lead, check: Some(now + CHECK), answering: None });
        // Before the work starts: it may end before they would be told that they joined it.
        for call in others {
            self.actions.push_back(Action::Joined { call, flight: flight.clone() });
        }
        self.actions.push_back(Action::Start { entry: id, call, token });
        self.send(Request::Began { id, token });
    }

    pub(super) fn own_flight(&self, lead: &Lead) -> JoinedFlight {
        JoinedFlight { token: lead.token, pid: self.pid, label: lead.label.clone(), since: lead.since }
    }

    pub(super) fn handle_ended(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        match entry.phase.clone() {
            Phase::Running { lead, .. } => {
                let joined = Verdict::Landed { token: lead.token, outcome: outcome.clone(), joined: true };
                self.deliver_all(id, &joined);
                let tell = lead.caller.map(|_| now + TELL);
                self.set_phase(id, Phase::Landing { lead, outcome, tell });
                self.claim(id);
            }
            Phase::Lost(lead) => {
                self.deliver_to(lead.caller, &Verdict::LeaseLost { token: lead.token });
                self.end(id);
            }
            Phase::Detached(lead) => {
                self.deliver_to(lead.caller, &Verdict::Landed { token: lead.token, outcome, joined: false });
                self.end(id);
            }
            _ => {}
        }
    }

    /// Rule 13.
    pub(super) fn handle_aborted(&mut self, now: Time, id: RequestId) {
        if on(Safeguard::LandTheAborted) {
            let failure = Failure::new(
                Failure::ABORTED,
                "the work ended without a result: its task was aborted, or its runtime dropped",
            );
            self.handle_ended(now, id, Outcome::failure(&failure));
        }
    }

    fn deliver_to(&mut self, call: Option<CallId>, verdict: &Verdict) {
        if let Some(call) = call {
            self.deliver(call, verdict.clone());
        }
    }

    /// Rule 11: the landing is in the kernel, so the leader's own call returns.
    pub(super) fn tell_leader(&mut self, id: RequestId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let Phase::Landing { lead, outcome, .. } = &mut entry.phase else {
            return;
        };
        let verdict = Verdict::Landed { token: lead.token, outcome: outcome.clone(), joined: false };
        let caller = lead.caller.take();
        self.deliver_to(caller, &verdict);
        self.stop_telling(id);
        if !on(Safeguard::HoldUntilAck) {
            self.end(id);
        }
    }

    pub(super) fn stop_telling(&mut self, id: RequestId) {
        let Some(Phase::Landing { lead, outcome, .. }) = self.entries.get(&id).map(|entry| entry.phase.clone()) else {
            return;
        };
        self.set_phase(id, Phase::Landing { lead, outcome, tell: None });
    }

    /// The kernel takes some of a landing: it is not stuck, so its caller goes on waiting for the rest.
    pub(super) fn handle_progress(&mut self, now: Time) {
        let telling = |phase: &Phase| matches!(phase, Phase::Landing { tell: Some(_), .. });
        let ids: Vec<RequestId> =
            self.entries.iter().filter(|(_, entry)| telling(&entry.phase)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(Phase::Landing { lead, outcome, .. }) = self.entries.get(&id).map(|entry| entry.phase.clone()) {
                self.set_phase(id, Phase::Landing { lead, outcome, tell: Some(now + TELL) });
            }
        }
    }

    pub(super) fn handle_entry_due(&mut self, now: Time, id: RequestId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        match &mut entry.phase {
            Phase::Running { check, .. } => {
                *check = None;
                if on(Safeguard::CheckKeyLock) {
                    self.actions.push_back(Action::CheckLock { entry: id });
                }
            }
            Phase::Landing { tell, .. } if tell.is_some_and(|at| at <= now) => self.tell_leader(id),
            _ => {}
        }
    }

    pub(super) fn handle_lock_checked(&mut self, now: Time, id: RequestId, current: bool) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        match entry.phase.clone() {
            Phase::Claiming { answering } => {
                if !current {
                    // The file that we locked is not the key's file any more: it is worth nothing. Nothing runs yet, so begin again.
                    self.actions.push_back(Action::Unlock { entry: id });
                    self.send(Request::Cancel { id });
                    self.try_lock(id);
                } else if answering.is_some() {
                    self.claim(id);
                }
            }
            Phase::Running { lead, answering, .. } => {
                self.set_phase(id, Phase::Running { lead, check: Some(now + CHECK), answering });
                if !current {
                    self.send(Request::Cancel { id });
                    self.lose(id);
                } else if answering.is_some() {
                    self.claim_at(id, Some(now));
                }
            }
            _ => {}
        }
    }

    /// The flight is not ours any more, or we are not alone.
    pub(super) fn lose(&mut self, id: RequestId) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        match entry.phase.clone() {
            Phase::Running { lead, .. } => {
                self.actions.push_back(Action::LoseLease { entry: id });
                self.deliver_all(id, &Verdict::Interrupted { token: lead.token });
                self.set_phase(id, Phase::Lost(lead));
            }
            Phase::Landing { lead, .. } => {
                self.actions.push_back(Action::LoseLease { entry: id });
                self.deliver_to(lead.caller, &Verdict::LeaseLost { token: lead.token });
                self.end(id);
            }
            _ => {}
        }
    }

    pub(super) fn handle_lease_dropped(&mut self, id: RequestId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.leased = false;
        if entry.phase == Phase::Ended {
            self.release(id);
        }
    }

    /// All is said. Rule 1: the lock is held until the last lease is gone, too.
    pub(super) fn end(&mut self, id: RequestId) {
        self.set_phase(id, Phase::Ended);
        self.report_closed();
        if self.entries.get(&id).is_some_and(|entry| !entry.leased) {
            self.release(id);
        }
    }

    fn release(&mut self, id: RequestId) {
        let Some(key) = self.entries.get(&id).map(|entry| entry.key.clone()) else {
            return;
        };
        self.actions.push_back(Action::Unlock { entry: id });
        self.remove_entry(id);
        self.send(Request::Released { id, key });
    }

    /// Every lock is in a directory that nobody finds any more.
    pub(super) fn handle_directory_replaced(&mut self) {
        let ids: Vec<RequestId> = self.entries.keys().copied().collect();
        for id in ids {
            match self.entries.get(&id).map(|entry| entry.phase.clone()) {
                Some(Phase::Claiming { .. }) => {
                    self.actions.push_back(Action::Unlock { entry: id });
                    self.try_lock(id);
                }
                Some(Phase::Waiting { .. }) => self.try_lock(id),
                Some(Phase::Running { .. } | Phase::Landing { .. }) => self.lose(id),
                _ => {}
            }
        }
    }
}
