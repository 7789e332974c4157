//! What the coordinator says.

use super::entry::Phase;
use super::{Action, Client, JoinedFlight, Time, Verdict};
use crate::protocol::{Request, RequestId, Response};
use crate::safeguards::{Safeguard, on};
use flight_fencing::FencingToken;
use std::time::Duration;

impl Client {
    pub(super) fn handle_response(&mut self, now: Time, response: Response) {
        self.heard(now);
        match response {
            Response::Go { id, token } => self.handle_go(now, id, token),
            Response::Hold { id, token } => self.handle_hold(id, token),
            Response::Joined { id, token, pid, label, age_ms } => {
                let since = now.saturating_sub(Duration::from_millis(age_ms));
                self.handle_joined(id, JoinedFlight { token, pid, label, since });
            }
            Response::Try { id } => self.handle_try(id),
            Response::Landed { id, token, outcome } => {
                self.end_joined(id, token, &Verdict::Landed { token, outcome, joined: true });
            }
            Response::Interrupted { id, token } => self.end_joined(id, token, &Verdict::Interrupted { token }),
            Response::Ack { id } => self.handle_ack(id),
            Response::Lost { id, token } => self.handle_lost(id, token),
            Response::Unsupported { id } => self.refuse(id, &Verdict::Unsupported),
            Response::Rejected { id, reason } => self.refuse(id, &Verdict::Rejected(reason)),
            Response::Status { id, report } => self.answer_status(id, Some(report)),
            // An answer that cannot be read answers nothing. That something was heard counts.
            Response::Pong { .. } | Response::Unknown => {}
        }
    }

    fn phase(&self, id: RequestId) -> Option<&Phase> {
        self.entries.get(&id).map(|entry| &entry.phase)
    }

    /// Another flight is known. We say the claim again only if the lock is still our own: the driver looks.
    fn handle_hold(&mut self, id: RequestId, over: FencingToken) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let (Phase::Claiming { answering } | Phase::Running { answering, .. }) = &mut entry.phase else {
            return;
        };
        *answering = Some(over);
        if on(Safeguard::CheckBeforeOver) {
            self.actions.push_back(Action::CheckLock { entry: id });
        } else {
            self.claim(id);
        }
    }

    fn handle_joined(&mut self, id: RequestId, flight: JoinedFlight) {
        if !matches!(self.phase(id), Some(Phase::Waiting { .. })) {
            return;
        }
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        // Another entry of ours has joined the same flight: one of them is enough.
        let twin = self.by_key.get(&entry.key).into_iter().flatten().copied().find(|other| {
            *other != id && matches!(self.phase(*other), Some(Phase::Joined(theirs)) if theirs.token == flight.token)
        });
        for call in entry.calls.clone() {
            self.actions.push_back(Action::Joined { call, flight: flight.clone() });
        }
        match twin {
            None => self.set_phase(id, Phase::Joined(flight)),
            Some(twin) => self.merge(id, twin),
        }
    }

    fn merge(&mut self, id: RequestId, into: RequestId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let moved = std::mem::take(&mut entry.calls);
        for call in &moved {
            if let Some(call) = self.calls.get_mut(call) {
                call.entry = into;
            }
        }
        if let Some(twin) = self.entries.get_mut(&into) {
            twin.calls.extend(moved);
        }
        self.remove_entry(id);
        self.send(Request::Cancel { id });
    }

    fn handle_try(&mut self, id: RequestId) {
        if matches!(self.phase(id), Some(Phase::Waiting { .. })) {
            self.try_lock(id);
        }
    }

    /// Tries the lock of an entry that does not hold it.
    pub(super) fn try_lock(&mut self, id: RequestId) {
        let Some(key) = self.entries.get(&id).map(|entry| entry.key.clone()) else {
            return;
        };
        self.set_phase(id, Phase::Trying);
        self.actions.push_back(Action::TryLock { entry: id, key });
    }

    /// The flight that the entry joined has ended. What is said of another flight is not for it.
    fn end_joined(&mut self, id: RequestId, token: FencingToken, verdict: &Verdict) {
        if matches!(self.phase(id), Some(Phase::Joined(flight)) if flight.token == token) {
            self.deliver_all(id, verdict);
            self.remove_entry(id);
        }
    }

    fn handle_ack(&mut self, id: RequestId) {
        if matches!(self.phase(id), Some(Phase::Landing { .. })) {
            self.tell_leader(id);
            self.end(id);
        }
    }

    fn handle_lost(&mut self, id: RequestId, token: FencingToken) {
        let own = match self.phase(id) {
            Some(Phase::Running { lead, .. } | Phase::Landing { lead, .. }) => lead.token == token,
            _ => false,
        };
        if own {
            self.lose(id);
        }
    }

    fn refuse(&mut self, id: RequestId, verdict: &Verdict) {
        self.answer_status(id, None);
        match self.phase(id) {
            Some(Phase::Trying | Phase::Claiming { .. } | Phase::Waiting { .. } | Phase::Joined(_)) => {
                self.deliver_all(id, verdict);
                self.withdraw(id);
            }
            Some(Phase::Running { .. } | Phase::Landing { .. }) => self.lose(id),
            _ => {}
        }
    }
}
