//! The requests of who holds a key lock: `lead`, `began`, `reassert`, `land`.

use super::flight::Flight;
use super::watch::Noted;
use super::{ClientId, Coordinator, Link, Party, ResignReason, Time};
use crate::key::Key;
use crate::outcome::Outcome;
use crate::protocol::{Claimant, Response};
use crate::safeguards::{Safeguard, on};
use flight_fencing::FencingToken;
use std::collections::BTreeSet;

/// What a leader says of a flight that it had been granted before.
pub(super) struct Reassertion {
    pub(super) token: FencingToken,
    pub(super) claimant: Claimant,
    pub(super) since: Time,
    pub(super) over: Option<FencingToken>,
}

impl Coordinator {
    pub(super) fn handle_lead(
        &mut self,
        now: Time,
        party: Party,
        key: Key,
        claimant: Claimant,
        over: Option<FencingToken>,
        term_is_current: bool,
    ) {
        if self.is_living(party) || !self.gives_way(now, party, &key, None, over) {
            return;
        }
        if !term_is_current && on(Safeguard::CheckTermBeforeGrant) {
            return self.resign(ResignReason::NotCurrent);
        }
        let Ok(token) = self.tokens.mint() else {
            return self.resign(ResignReason::CounterSpent);
        };
        self.granted = Some(token);
        let client = self.client(party.link);
        let flight = Flight {
            token,
            leader: Some(party),
            client,
            claimant,
            since: now,
            begun: !on(Safeguard::JoinOnlyTheBegun),
            joiners: BTreeSet::new(),
            may_be_rejoined: false,
            dry: None,
        };
        self.adopt(now, &key, flight);
        self.remember(party, &key);
        self.send(party.link, Response::Go { id: party.id, token });
    }

    pub(super) fn handle_began(&mut self, now: Time, party: Party, token: FencingToken) {
        let Some(key) = self.key_of(party) else {
            return;
        };
        let Some(flight) = self.keys.get_mut(&key).and_then(|state| state.flight.as_mut()) else {
            return;
        };
        if flight.leader == Some(party) && flight.token == token {
            flight.begun = true;
            self.admit_waiting(now, &key);
        }
    }

    pub(super) fn handle_reassert(&mut self, now: Time, party: Party, key: Key, said: Reassertion) {
        let Reassertion { token, claimant, since, over } = said;
        if !self.may_claim(party, &key, token) {
            return self.reject_token(party);
        }
        if self.is_outdated(&key, token) {
            return self.finish(party, Response::Lost { id: party.id, token });
        }
        if !self.gives_way(now, party, &key, Some(token), over) {
            return;
        }
        let client = self.client(party.link);
        let known = self.keys.get_mut(&key).and_then(|state| state.flight.as_mut());
        if let Some(flight) = known {
            // The leader came back on another connection. Whoever waits joins after that one was read dry.
            flight.leader = Some(party);
            flight.begun = true;
            flight.dry = None;
        } else {
            let joiners = BTreeSet::new();
            let leader = Some(party);
            self.adopt(
                now,
                &key,
                Flight {
                    token,
                    leader,
                    client,
                    claimant,
                    since,
                    begun: true,
                    joiners,
                    may_be_rejoined: true,
                    dry: None,
                },
            );
        }
        self.remember(party, &key);
        self.settle_watch(now, &key);
        self.admit_waiting(now, &key);
    }

    /// A landing is a fact, whoever holds the key by now: it serves those who joined its flight, and no other flight. So it contests
    /// nothing. (Its leader may have died after it landed, and the next one may have been heard first.)
    pub(super) fn handle_land(&mut self, now: Time, party: Party, key: &Key, token: FencingToken, outcome: Outcome) {
        // A landing sent twice is acknowledged twice.
        if let Some(landing) =
            self.deliveries.values_mut().find(|landing| landing.token == token && landing.key == *key)
        {
            landing.leader = Some(party);
            return;
        }
        if self.kept.outcome(key, token).is_some() {
            return self.finish(party, Response::Ack { id: party.id });
        }
        if !self.may_claim(party, key, token) {
            return self.reject_token(party);
        }
        let outdated = self.is_outdated(key, token);
        let state = self.keys.entry(key.clone()).or_default();
        let mut joiners = BTreeSet::from_iter(state.take_rejoining(token));
        // A flight that this term neither granted nor saw reasserted may have joiners who have not said `rejoin` yet.
        let mut may_be_rejoined = true;
        if let Some(flight) = state.flight.take_if(|flight| flight.token == token) {
            joiners.extend(&flight.joiners);
            may_be_rejoined = flight.may_be_rejoined;
            if let Some(leader) = flight.leader {
                self.forget(leader);
            }
        }
        if !on(Safeguard::LandingServesJoinersOnly) {
            let waiting = std::mem::take(&mut self.keys.entry(key.clone()).or_default().waiting);
            for waiter in waiting {
                self.send(
                    waiter.party.link,
                    Response::Joined { id: waiter.party.id, token, pid: 0, label: String::new(), age_ms: 0 },
                );
                joiners.insert(waiter.party);
            }
        }
        let keep = may_be_rejoined && on(Safeguard::KeepOutcomes);
        self.kept.keep(now, key, token, keep.then(|| outcome.clone()));
        self.deliver(party, key, token, &outcome, &joiners, outdated);
        self.settle_watch(now, key);
        self.tidy(key);
    }

    /// Rule 5: a flight that the coordinator knows gives way only to a caller that holds the lock still. Its answer to `hold`
    /// is younger than that flight, so the flight's leader has died or lost its lock. Returns whether the claim may go on.
    fn gives_way(
        &mut self,
        now: Time,
        party: Party,
        key: &Key,
        mine: Option<FencingToken>,
        over: Option<FencingToken>,
    ) -> bool {
        let Some(flight) = self.keys.get(key).and_then(|state| state.flight.as_ref()) else {
            return true;
        };
        let token = flight.token;
        if Some(token) == mine {
            return true;
        }
        let answered = if on(Safeguard::HoldTheLateAnswer) { over == Some(token) } else { over.is_some() };
        if answered || !on(Safeguard::HoldTheLateClaim) {
            self.displace(now, party, key);
            return true;
        }
        self.send(party.link, Response::Hold { id: party.id, token });
        false
    }

    /// Takes the key's flight away for another claim. Its leader hears that it lost. Its joiners rejoin it: its leader may have landed
    /// before it died.
    fn displace(&mut self, now: Time, by: Party, key: &Key) {
        let Some(state) = self.keys.get_mut(key) else { return };
        let Some(flight) = state.flight.take() else { return };
        for joiner in &flight.joiners {
            state.rejoining.insert(*joiner, flight.token);
        }
        if flight.begun {
            self.kept.keep(now, key, flight.token, None);
        }
        if let Some(leader) = flight.leader.filter(|leader| *leader != by) {
            self.finish(leader, Response::Lost { id: leader.id, token: flight.token });
        }
    }

    /// Takes the key's flight away. Its joiners hear `interrupted`; what its leader hears is the caller's to say.
    pub(super) fn end_flight(&mut self, now: Time, key: &Key) -> Option<Flight> {
        let flight = self.keys.get_mut(key)?.flight.take()?;
        if flight.begun {
            self.kept.keep(now, key, flight.token, None);
        }
        for joiner in &flight.joiners {
            self.finish(*joiner, Response::Interrupted { id: joiner.id, token: flight.token });
        }
        Some(flight)
    }

    /// The flight is the key's from now on. The claimant holds the lock, so no other flight's leader does: whoever rejoins another
    /// one waits for the dead.
    fn adopt(&mut self, now: Time, key: &Key, mut flight: Flight) {
        let state = self.keys.entry(key.clone()).or_default();
        flight.joiners.extend(state.take_rejoining(flight.token));
        state.flight = Some(flight);
        let dead = Noted { orphan: None, rejoining: state.noted_rejoining() };
        self.settle_watch(now, key);
        self.read_dry_before_death(now, key, dead);
    }

    /// Rule 7.
    fn is_outdated(&self, key: &Key, token: FencingToken) -> bool {
        on(Safeguard::RefuseTheOutdated) && self.newest_begun(key).is_some_and(|newest| token < newest)
    }

    /// Whether this client may speak for the flight of `token`: it was granted in some term, and not to another client.
    fn may_claim(&self, party: Party, key: &Key, token: FencingToken) -> bool {
        if token.epoch() > self.tokens.epoch() || (token.epoch() == self.tokens.epoch() && Some(token) > self.granted) {
            return false;
        }
        // An id that plays another role cannot turn into a claim.
        if self.is_living(party) && !self.leads(party, key, token) {
            return false;
        }
        let flight = self.keys.get(key).and_then(|state| state.flight.as_ref()).filter(|flight| flight.token == token);
        flight.is_none_or(|flight| flight.client == self.client(party.link))
    }

    fn leads(&self, party: Party, key: &Key, token: FencingToken) -> bool {
        let flight = self.keys.get(key).and_then(|state| state.flight.as_ref());
        flight.is_some_and(|flight| flight.leader == Some(party) && flight.token == token)
    }

    fn client(&self, link: Link) -> ClientId {
        self.links.get(&link).map_or(ClientId(0), |connected| connected.client)
    }

    pub(super) fn key_of(&self, party: Party) -> Option<Key> {
        self.links.get(&party.link)?.ids.get(&party.id).cloned()
    }
}
