//! Rule 2: deliver, then acknowledge; and whoever takes nothing is let go.

use super::{Action, CloseReason, Coordinator, Link, Party, QUEUE_LIMIT, STALL, Time};
use crate::key::Key;
use crate::outcome::Outcome;
use crate::protocol::Response;
use crate::safeguards::{Safeguard, on};
use flight_fencing::FencingToken;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A landing whose outcome is on its way to the joiners' sockets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Landing {
    /// Who gets the acknowledgement. `None`: the last one got it, or its connection ended; it may ask again.
    pub(super) leader: Option<Party>,
    pub(super) key: Key,
    pub(super) token: FencingToken,
    /// How many frames each connection has still to take.
    awaiting: BTreeMap<Link, usize>,
}

/// Bytes that a connection's socket has no place for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Backlog {
    /// How much it had taken then.
    written: u64,
    /// Since when it has taken nothing.
    since: Time,
}

impl Backlog {
    pub(super) fn deadline(&self) -> Time {
        self.since + STALL
    }
}

/// A timer that fires later than this was late because the machine slept or this process was stopped: then the others were, too.
const LATE: Duration = STALL;

impl Coordinator {
    /// Sends the outcome to all joiners. The leader hears `ack` when the last frame is in its socket, or `lost` at once when its flight
    /// is `outdated`.
    pub(super) fn deliver(
        &mut self,
        leader: Party,
        key: &Key,
        token: FencingToken,
        outcome: &Outcome,
        joiners: &BTreeSet<Party>,
        outdated: bool,
    ) {
        let delivery = self.number();
        let mut awaiting = BTreeMap::new();
        for joiner in joiners {
            self.forget(*joiner);
            if !self.links.contains_key(&joiner.link) {
                continue;
            }
            *awaiting.entry(joiner.link).or_insert(0) += 1;
            let response = Response::Landed { id: joiner.id, token, outcome: outcome.clone() };
            self.actions.push_back(Action::Send { link: joiner.link, response, delivery: Some(delivery) });
        }
        if !on(Safeguard::DeliverThenAcknowledge) {
            // The acknowledgement overtakes what it acknowledges.
            self.forget(leader);
            self.actions.push_front(Action::Send {
                link: leader.link,
                response: Response::Ack { id: leader.id },
                delivery: None,
            });
            return;
        }
        if outdated {
            return self.finish(leader, Response::Lost { id: leader.id, token });
        }
        let landing = Landing { leader: Some(leader), key: key.clone(), token, awaiting };
        if landing.awaiting.is_empty() {
            self.finish(leader, Response::Ack { id: leader.id });
        } else {
            self.remember(leader, key);
            self.deliveries.insert(delivery, landing);
        }
    }

    /// Sends a kept outcome to who rejoins late. An acknowledgement of the landing that has not gone out waits for this one, too; also
    /// one that the leader asks for again.
    pub(super) fn deliver_late(&mut self, party: Party, key: &Key, token: FencingToken, outcome: Outcome) {
        self.forget(party);
        let pending = self.deliveries.iter().find(|(_, landing)| landing.token == token && landing.key == *key);
        let delivery = pending.map(|(delivery, _)| *delivery).unwrap_or_else(|| self.number());
        let response = Response::Landed { id: party.id, token, outcome };
        let counts = on(Safeguard::CountTheLateOutcome);
        if counts {
            let unasked = || Landing { leader: None, key: key.clone(), token, awaiting: BTreeMap::new() };
            let landing = self.deliveries.entry(delivery).or_insert_with(unasked);
            *landing.awaiting.entry(party.link).or_insert(0) += 1;
        }
        let delivery = counts.then_some(delivery);
        self.actions.push_back(Action::Send { link: party.link, response, delivery });
    }

    pub(super) fn handle_delivered(&mut self, link: Link, delivery: u64) {
        let Some(landing) = self.deliveries.get_mut(&delivery) else {
            return;
        };
        if let Some(count) = landing.awaiting.get_mut(&link) {
            *count -= 1;
            if *count == 0 {
                landing.awaiting.remove(&link);
            }
        }
        self.acknowledge_delivered();
    }

    /// Whoever is not connected any more is not waited for.
    pub(super) fn end_deliveries(&mut self, link: Link) {
        for landing in self.deliveries.values_mut() {
            landing.awaiting.remove(&link);
        }
        self.acknowledge_delivered();
    }

    fn acknowledge_delivered(&mut self) {
        while let Some((delivery, _)) = self.deliveries.iter().find(|(_, landing)| landing.awaiting.is_empty()) {
            let delivery = *delivery;
            let Some(landing) = self.deliveries.remove(&delivery) else {
                return;
            };
            if let Some(leader) = landing.leader {
                self.finish(leader, Response::Ack { id: leader.id });
            }
        }
    }

    pub(super) fn handle_backlog(&mut self, now: Time, link: Link, bytes: usize, written: u64) {
        let Some(connected) = self.links.get_mut(&link) else {
            return;
        };
        if bytes == 0 {
            connected.backlog = None;
            return;
        }
        let stuck = connected.backlog.as_ref().filter(|backlog| backlog.written == written);
        let since = stuck.map_or(now, |backlog| backlog.since);
        connected.backlog = Some(Backlog { written, since });
        if bytes > QUEUE_LIMIT {
            self.close(link, CloseReason::QueueFull);
        }
    }

    pub(super) fn close_stalled(&mut self, now: Time) {
        if !on(Safeguard::CloseTheStalled) {
            return;
        }
        let mut stalled = Vec::new();
        for (link, connected) in &mut self.links {
            let Some(backlog) = connected.backlog.as_mut().filter(|backlog| backlog.deadline() <= now) else {
                continue;
            };
            if now - backlog.deadline() > LATE {
                // This timer slept, so the peer may have: it gets its time anew.
                backlog.since = now;
            } else {
                stalled.push(*link);
            }
        }
        for link in stalled {
            self.close(link, CloseReason::Stalled);
        }
    }

    fn close(&mut self, link: Link, reason: CloseReason) {
        if let Some(connected) = self.links.get_mut(&link) {
            connected.backlog = None;
        }
        self.actions.push_back(Action::Close { link, reason });
        self.end_deliveries(link);
    }
}
