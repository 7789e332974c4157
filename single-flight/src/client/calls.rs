//! What callers do: they call, leave, run out of time, close.

use super::entry::{Entry, Phase};
use super::{Action, Call, CallId, Client, NewCall, OwnerId, Verdict, WaitedFor};
use crate::protocol::{Rejection, Request, RequestId};
use crate::safeguards::{Safeguard, on};

impl Client {
    pub(super) fn handle_call(&mut self, new: NewCall) {
        let NewCall { call, owner, key, codec, label, deadline } = new;
        if self.closing.contains(&owner) {
            self.actions.push_back(Action::Deliver { call, verdict: Verdict::Closed });
            return;
        }
        self.link.call_came();
        let attachable = self.by_key.get(&key).into_iter().flatten().copied().find(|id| self.is_attachable(*id));
        let id = attachable.unwrap_or(self.next_id);
        self.calls.insert(call, Call { entry: id, owner, label, deadline });
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, call));
        }
        if attachable.is_some() {
            self.attach(id, call, codec);
            return;
        }
        self.next_id += 1;
        self.entries
            .insert(id, Entry { key: key.clone(), codec, calls: vec![call], phase: Phase::Trying, leased: false });
        self.by_key.entry(key.clone()).or_default().push(id);
        self.actions.push_back(Action::TryLock { entry: id, key });
    }

    /// Invariant 4. The answer to a join may be on its way to us, and its flight may end before this call begins: then it must
    /// not get that flight's outcome. So a call that meets an entry that asked, or joined, asks for itself.
    fn is_attachable(&self, id: RequestId) -> bool {
        let phase = self.entries.get(&id).map(|entry| &entry.phase);
        match phase {
            Some(Phase::Trying | Phase::Claiming { .. } | Phase::Waiting { asked: false } | Phase::Running { .. }) => {
                true
            }
            Some(Phase::Waiting { asked: true } | Phase::Joined(_)) => !on(Safeguard::AttachOnlyToTheFresh),
            _ => false,
        }
    }

    fn attach(&mut self, id: RequestId, call: CallId, codec: String) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.codec != codec {
            let leader = entry.codec.clone();
            self.deliver(call, Verdict::Rejected(Rejection::Codec { leader, joiner: codec }));
            return;
        }
        entry.calls.push(call);
        let flight = match &self.entries[&id].phase {
            Phase::Running { lead, .. } => Some(self.own_flight(lead)),
            Phase::Joined(flight) => Some(flight.clone()),
            _ => None,
        };
        if let Some(flight) = flight {
            self.actions.push_back(Action::Joined { call, flight });
        }
    }

    /// The caller is not interested any more: it hears nothing, and nothing changes for any other call.
    pub(super) fn handle_leave(&mut self, call: CallId) {
        let Some(known) = self.calls.remove(&call) else {
            return;
        };
        if let Some(deadline) = known.deadline {
            self.deadlines.remove(&(deadline, call));
        }
        self.detach_call(known.entry, call);
    }

    pub(super) fn time_out(&mut self, call: CallId) {
        let Some(known) = self.calls.get_mut(&call) else {
            return;
        };
        // It was taken out of the deadlines already.
        known.deadline = None;
        let id = known.entry;
        let waited_for = match self.entries.get(&id).map(|entry| &entry.phase) {
            Some(Phase::Joined(flight)) => WaitedFor::Flight(flight.clone()),
            Some(Phase::Running { lead, .. }) => WaitedFor::Flight(self.own_flight(lead)),
            Some(Phase::Waiting { asked: true }) if !self.link.is_silent() => WaitedFor::KeyLock,
            _ => WaitedFor::Coordinator,
        };
        self.deliver(call, Verdict::TimedOut { waited_for });
        self.detach_call(id, call);
    }

    /// The call waits with the entry no more. An entry that nobody waits with, and whose work does not run, is withdrawn.
    fn detach_call(&mut self, id: RequestId, call: CallId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.calls.retain(|other| *other != call);
        let abandoned = entry.calls.is_empty();
        match &mut entry.phase {
            Phase::Trying | Phase::Claiming { .. } | Phase::Waiting { .. } | Phase::Joined(_) if abandoned => {
                self.withdraw(id);
            }
            // Rule 6 of the promise: the work goes on and lands for the joiners.
            Phase::Running { lead, .. } | Phase::Lost(lead) | Phase::Detached(lead) if lead.caller == Some(call) => {
                lead.caller = None;
            }
            Phase::Landing { lead, .. } if lead.caller == Some(call) => {
                lead.caller = None;
                self.stop_telling(id);
            }
            _ => {}
        }
    }

    /// Takes the entry back from the coordinator, and lets go of its lock first: whoever the coordinator tells to try finds it free.
    pub(super) fn withdraw(&mut self, id: RequestId) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        if entry.phase.holds_lock() {
            self.actions.push_back(Action::Unlock { entry: id });
        }
        let asked = !matches!(entry.phase, Phase::Trying | Phase::Waiting { asked: false });
        self.remove_entry(id);
        if asked && on(Safeguard::TellTheCancel) {
            self.send(Request::Cancel { id });
        }
    }

    /// Whatever waits hears `Closed`. A work that runs goes on with its lock, and its joiners hear `interrupted`. What is landing is waited for.
    pub(super) fn handle_close(&mut self, owner: OwnerId) {
        if !self.closing.insert(owner) {
            return;
        }
        let running: Vec<RequestId> =
            self.entries.iter().filter(|(_, entry)| entry.is_run_by(owner)).map(|(id, _)| *id).collect();
        for id in running {
            self.detach_run(id);
        }
        let landing = |client: &Client, call: &Call, id: CallId| {
            let phase = client.entries.get(&call.entry).map(|entry| &entry.phase);
            matches!(phase, Some(Phase::Landing { lead, .. } | Phase::Detached(lead) | Phase::Lost(lead)) if lead.caller == Some(id))
        };
        let calls: Vec<(CallId, RequestId)> = self
            .calls
            .iter()
            .filter(|(id, call)| call.owner == owner && !landing(self, call, **id))
            .map(|(id, call)| (*id, call.entry))
            .collect();
        for (call, entry) in calls {
            self.deliver(call, Verdict::Closed);
            self.detach_call(entry, call);
        }
        self.report_closed();
    }

    fn detach_run(&mut self, id: RequestId) {
        let Some(Phase::Running { lead, .. }) = self.entries.get(&id).map(|entry| entry.phase.clone()) else {
            return;
        };
        self.deliver_all(id, &Verdict::Interrupted { token: lead.token });
        self.set_phase(id, Phase::Detached(lead));
        if on(Safeguard::CloseWithdraws) {
            self.send(Request::Cancel { id });
        }
    }

    /// Says of each handle that closes when nothing of it is landing any more.
    pub(super) fn report_closed(&mut self) {
        let landing = |owner: OwnerId| {
            self.entries
                .values()
                .any(|entry| matches!(&entry.phase, Phase::Landing { lead, .. } if lead.owner == owner))
        };
        let closed: Vec<OwnerId> = self.closing.iter().copied().filter(|owner| !landing(*owner)).collect();
        for owner in closed {
            self.closing.remove(&owner);
            self.actions.push_back(Action::Closed { owner });
        }
    }
}

impl Entry {
    fn is_run_by(&self, owner: OwnerId) -> bool {
        matches!(&self.phase, Phase::Running { lead, .. } if lead.owner == owner)
    }
}
