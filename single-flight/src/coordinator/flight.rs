//! What the coordinator knows of one key.

use super::watch::Watch;
use super::{ClientId, Party, Time};
use crate::protocol::Claimant;
use flight_fencing::FencingToken;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A flight from its grant to its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub(super) token: FencingToken,
    /// `None`: orphaned. The leader's connection ended, which is not a death.
    pub(super) leader: Option<Party>,
    /// Who was granted the token, also while orphaned.
    pub(super) client: ClientId,
    pub(super) claimant: Claimant,
    pub(super) since: Time,
    /// The leader said that its work runs.
    pub(super) begun: bool,
    pub(super) joiners: BTreeSet<Party>,
    /// Somebody may have joined it of whom this coordinator does not know now, and may rejoin.
    pub(super) may_be_rejoined: bool,
    /// The outstanding `ReadDry` of the leader's connection, and the first turn that came too late for it.
    pub(super) dry: Option<(u64, u64)>,
}

/// A caller that found the key lock busy and has joined nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) party: Party,
    pub(super) codec: String,
    /// Grows with each waiter of the key.
    pub(super) turn: u64,
}

/// Everything of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct KeyState {
    pub(super) flight: Option<Flight>,
    /// In the order in which they came.
    pub(super) waiting: VecDeque<Waiter>,
    /// Those who had joined a flight that this coordinator does not know, or not yet.
    pub(super) rejoining: BTreeMap<Party, FencingToken>,
    pub(super) watch: Option<Watch>,
    pub(super) next_turn: u64,
}

impl KeyState {
    pub(super) fn is_empty(&self) -> bool {
        self.flight.is_none() && self.waiting.is_empty() && self.rejoining.is_empty()
    }

    /// Whether only the key lock can tell how it goes on: rule 4.
    pub(super) fn needs_watch(&self) -> bool {
        match &self.flight {
            Some(flight) => flight.leader.is_none() || !self.rejoining.is_empty(),
            None => !self.rejoining.is_empty() || !self.waiting.is_empty(),
        }
    }

    /// Those who rejoin now, and which flight.
    pub(super) fn noted_rejoining(&self) -> Vec<(Party, FencingToken)> {
        self.rejoining.iter().map(|(party, token)| (*party, *token)).collect()
    }

    /// Takes those out who rejoin the flight of `token`.
    pub(super) fn take_rejoining(&mut self, token: FencingToken) -> Vec<Party> {
        let parties: Vec<Party> =
            self.rejoining.iter().filter(|(_, theirs)| **theirs == token).map(|(party, _)| *party).collect();
        for party in &parties {
            self.rejoining.remove(party);
        }
        parties
    }
}
