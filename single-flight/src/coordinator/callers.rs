//! The requests of who does not hold the key lock: `join`, `rejoin`, `cancel`, and what a connection's end withdraws.

use super::flight::Waiter;
use super::watch::Noted;
use super::{Action, ClientId, CloseReason, Connected, Coordinator, Link, Party, Ticket, Time};
use crate::key::Key;
use crate::protocol::{Rejection, Response};
use crate::safeguards::{Safeguard, on};
use flight_fencing::FencingToken;
use std::collections::BTreeMap;

impl Coordinator {
    pub(super) fn handle_join(&mut self, now: Time, party: Party, key: Key, codec: String) {
        if self.is_living(party) {
            return;
        }
        self.remember(party, &key);
        let state = self.keys.entry(key.clone()).or_default();
        let turn = state.next_turn;
        state.next_turn += 1;
        state.waiting.push_back(Waiter { party, codec, turn });
        self.settle_watch(now, &key);
        self.admit_waiting(now, &key);
    }

    /// Rules 6 and 11: whoever waits joins the key's flight once it began, its leader is heard, and the leader's connection was read
    /// dry since the join arrived. An orphaned flight is joined when its leader is heard again.
    pub(super) fn admit_waiting(&mut self, now: Time, key: &Key) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        let Some(flight) = state.flight.as_mut().filter(|flight| flight.begun && flight.dry.is_none()) else {
            return;
        };
        let Some(leader) = flight.leader else { return };
        if state.waiting.is_empty() {
            return;
        }
        let until = state.next_turn;
        // A leader in our own process lands by a call: nothing of it can be on its way.
        if leader.link == Link::LOCAL || !on(Safeguard::ReadDryBeforeJoined) {
            return self.admit(now, key, until);
        }
        let ticket = self.next_number;
        flight.dry = Some((ticket, until));
        self.next_number += 1;
        self.tickets.insert(ticket, Ticket::Join(key.clone()));
        self.actions.push_back(Action::ReadDry { link: Some(leader.link), ticket });
    }

    pub(super) fn handle_leader_dry(&mut self, now: Time, key: &Key, ticket: u64) {
        let Some(flight) = self.keys.get_mut(key).and_then(|state| state.flight.as_mut()) else {
            return;
        };
        // Another flight, or another connection of its leader, has a ticket of its own.
        let Some((_, until)) = flight.dry.take_if(|(number, _)| *number == ticket) else {
            return;
        };
        if flight.leader.is_some() {
            self.admit(now, key, until);
            self.admit_waiting(now, key);
        }
    }

    fn admit(&mut self, now: Time, key: &Key, until: u64) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        let Some(flight) = state.flight.as_mut() else {
            return;
        };
        let (token, claimant) = (flight.token, flight.claimant.clone());
        let age_ms = u64::try_from(now.saturating_sub(flight.since).as_millis()).unwrap_or(u64::MAX);
        let mut answers = Vec::new();
        while let Some(waiter) = state.waiting.pop_front_if(|waiter| waiter.turn < until) {
            let id = waiter.party.id;
            if waiter.codec == claimant.codec {
                flight.joiners.insert(waiter.party);
                flight.may_be_rejoined = true;
                let (pid, label) = (claimant.pid, claimant.label.clone());
                answers.push((waiter.party, Response::Joined { id, token, pid, label, age_ms }));
            } else {
                let reason = Rejection::Codec { leader: claimant.codec.clone(), joiner: waiter.codec };
                answers.push((waiter.party, Response::Rejected { id, reason }));
            }
        }
        for (party, answer) in answers {
            if matches!(answer, Response::Rejected { .. }) {
                self.forget(party);
            }
            self.send(party.link, answer);
        }
    }

    pub(super) fn handle_rejoin(&mut self, now: Time, party: Party, key: Key, token: FencingToken) {
        if self.is_living(party) {
            return;
        }
        let interrupted = Response::Interrupted { id: party.id, token };
        let known = self.keys.get(&key).and_then(|state| state.flight.as_ref()).map(|flight| flight.token);
        let flying = known == Some(token);
        // It ended, or its leader lost the lock to another one. Its landing may still be among what was received.
        let over = !flying && (known > Some(token) || self.kept.newest(&key) >= Some(token));
        if over && !on(Safeguard::KeptBeforeKnown) {
            return self.finish(party, interrupted);
        }
        if let Some(outcome) = self.kept.outcome(&key, token).cloned() {
            return self.deliver_late(party, &key, token, outcome);
        }
        if !flying && !on(Safeguard::UnknownRejoinWaits) {
            return self.finish(party, interrupted);
        }
        self.remember(party, &key);
        let state = self.keys.entry(key.clone()).or_default();
        match state.flight.as_mut().filter(|_| flying) {
            Some(flight) => {
                flight.joiners.insert(party);
            }
            None => {
                state.rejoining.insert(party, token);
            }
        }
        self.settle_watch(now, &key);
        if over {
            self.read_dry_before_death(now, &key, Noted { orphan: None, rejoining: vec![(party, token)] });
        }
    }

    pub(super) fn handle_cancel(&mut self, now: Time, party: Party) {
        let Some(key) = self.key_of(party) else {
            return;
        };
        self.forget(party);
        self.withdraw(party, &key);
        let leads = self
            .keys
            .get(&key)
            .and_then(|state| state.flight.as_ref())
            .is_some_and(|flight| flight.leader == Some(party));
        if leads {
            self.end_flight(now, &key);
        }
        self.wake_watch(now, &key);
        self.tidy(&key);
    }

    /// The party waits, joins and rejoins no more. What it leads is another matter.
    fn withdraw(&mut self, party: Party, key: &Key) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        state.waiting.retain(|waiter| waiter.party != party);
        state.rejoining.remove(&party);
        if let Some(flight) = state.flight.as_mut() {
            // Whoever leaves a flight by a broken connection may rejoin it after it landed.
            flight.joiners.remove(&party);
        }
    }

    /// Rule 12. A client closes its connection before it makes another one, but the other one may be heard first. What is still to
    /// be read from the old one was said before what comes on the new one, so it must not undo it: the old one ends here.
    pub(super) fn handle_connected(&mut self, now: Time, link: Link, client: ClientId, pid: u32) {
        let older: Vec<Link> =
            self.links.iter().filter(|(_, known)| known.client == client).map(|(link, _)| *link).collect();
        for old in older.into_iter().filter(|_| on(Safeguard::NewerConnectionCounts)) {
            self.handle_disconnected(now, old);
            self.actions.push_back(Action::Close { link: old, reason: CloseReason::Superseded });
        }
        self.links.insert(link, Connected { client, pid, ids: BTreeMap::new(), backlog: None });
    }

    /// Rule 3: a lost connection is not a death. What hung on it is withdrawn, and what it led is orphaned.
    pub(super) fn handle_disconnected(&mut self, now: Time, link: Link) {
        let Some(connected) = self.links.remove(&link) else {
            return;
        };
        self.end_deliveries(link);
        if !on(Safeguard::StateHangsOnConnection) {
            return;
        }
        for (id, key) in connected.ids {
            let party = Party { link, id };
            self.withdraw(party, &key);
            let flight = self.keys.get_mut(&key).and_then(|state| state.flight.as_mut());
            if let Some(flight) = flight.filter(|flight| flight.leader == Some(party)) {
                flight.leader = None;
                flight.dry = None;
                if !on(Safeguard::OrphanIsNoDeath) {
                    self.end_flight(now, &key);
                }
            }
            self.wake_watch(now, &key);
            self.tidy(&key);
        }
    }
}
