//! What this process wants of one key, and how far it is.

use super::{CallId, ErrorId, JoinedFlight, OwnerId, Time};
use crate::key::Key;
use crate::outcome::Outcome;
use crate::status::{HeldStatus, HeldWhy};
use flight_fencing::FencingToken;

/// One id at the coordinator, at most one key lock, and the calls that share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) codec: String,
    /// The calls that wait for a verdict, oldest first; without the one whose work runs.
    pub(super) calls: Vec<CallId>,
    pub(super) phase: Phase,
    /// A lease of the work that was started is still alive somewhere.
    pub(super) leased: bool,
}

impl Entry {
    /// The key lock that it holds, for the eyes of people.
    pub(super) fn held(&self) -> Option<HeldStatus> {
        let (token, why) = match &self.phase {
            Phase::Trying | Phase::Waiting { .. } | Phase::Joined(_) => return None,
            Phase::Claiming { .. } => (None, HeldWhy::Claiming),
            Phase::Running { lead, .. } => (Some(lead.token), HeldWhy::Running),
            Phase::Landing { lead, .. } => (Some(lead.token), HeldWhy::Landing),
            Phase::Lost(lead) => (Some(lead.token), HeldWhy::Lost),
            Phase::Detached(lead) => (Some(lead.token), HeldWhy::Detached),
            Phase::Ended => (None, HeldWhy::Leased),
        };
        Some(HeldStatus { key: self.key.as_str().to_owned(), token, why })
    }
}

/// The leader's side of a flight of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lead {
    pub(super) token: FencingToken,
    /// The call whose work it is, while it waits for its own outcome.
    pub(super) caller: Option<CallId>,
    pub(super) owner: OwnerId,
    pub(super) label: String,
    pub(super) since: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The driver tries the lock.
    Trying,
    /// It holds the lock and waits for `go`. `answering`: it looks whether the lock is still its own before it claims again.
    Claiming { answering: Option<FencingToken> },
    /// The lock was busy. `asked`: the coordinator of this connection was asked.
    Waiting { asked: bool },
    /// It joined a flight.
    Joined(JoinedFlight),
    /// The work runs. `check`: when the lock is compared with its path next; `None` while it is.
    Running { lead: Lead, check: Option<Time>, answering: Option<FencingToken> },
    /// The work ended and the coordinator has not acknowledged it. `tell`: when the caller hears of it at the latest.
    Landing { lead: Lead, outcome: Outcome, tell: Option<Time> },
    /// The lease was lost while the work ran. It still runs.
    Lost(Lead),
    /// The handle was closed while the work ran. It still runs.
    Detached(Lead),
    /// All is said. The lock is held until the last lease is gone.
    Ended,
}

impl Phase {
    /// Whether it waits for a word of the coordinator.
    pub(super) fn expects_answer(&self) -> bool {
        matches!(self, Phase::Claiming { .. } | Phase::Waiting { .. } | Phase::Joined(_) | Phase::Landing { .. })
    }

    /// Whether it needs a coordinator to go on. A work that runs needs one when it lands, and its joiners need one now.
    pub(super) fn needs_coordinator(&self) -> bool {
        self.expects_answer() || matches!(self, Phase::Trying | Phase::Running { .. })
    }

    /// Invariant 1 of the client.
    pub(super) fn holds_lock(&self) -> bool {
        !matches!(self, Phase::Trying | Phase::Waiting { .. } | Phase::Joined(_))
    }

    pub(super) fn due(&self) -> Option<Time> {
        match self {
            Phase::Running { check, .. } => *check,
            Phase::Landing { tell, .. } => *tell,
            _ => None,
        }
    }
}

/// Why a new connection could not be had, for those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Failing {
    pub(super) since: Time,
    pub(super) error: ErrorId,
}
