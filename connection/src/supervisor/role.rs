//! What a supervisor is at the moment, with what only that has.

use std::time::Instant;

use super::options::Options;
use super::phase::Phase;
use super::seeking::{Obstacle, Seeking};
use super::serving::Serving;
use super::upstream::{Greeting, Upstream};

/// What the supervisor is, in the directory.
pub(super) enum Role {
    Idle,
    Seeking(Seeking),
    Greeting(Greeting),
    Connected(Upstream),
    Serving(Serving),
}

impl Role {
    pub(super) fn phase(&self, options: &Options, now: Instant) -> Phase {
        let long = |since: Instant| now.saturating_duration_since(since) >= options.patience;
        match self {
            Role::Idle => Phase::Idle,
            Role::Seeking(seeking) => match seeking.obstacle {
                Some(Obstacle::Full { since }) if long(since) => Phase::NotAnswering { pid: None, since },
                Some(Obstacle::LockHeld { since }) if long(since) => Phase::LockHeldWithoutSocket { since },
                Some(Obstacle::Failed { until }) => Phase::BackingOff { until },
                _ => Phase::Connecting,
            },
            Role::Greeting(Greeting { pid, since, .. }) if long(*since) => {
                Phase::NotAnswering { pid: *pid, since: *since }
            }
            Role::Greeting(_) => Phase::Connecting,
            Role::Connected(Upstream { pid, epoch, .. }) => Phase::Connected { pid: *pid, epoch: *epoch },
            Role::Serving(serving) => Phase::Serving { epoch: serving.term.epoch() },
        }
    }

    /// When something is due.
    pub(super) fn due(&self, options: &Options) -> Option<Instant> {
        match self {
            Role::Seeking(seeking) => Some(seeking.next),
            Role::Greeting(greeting) if !greeting.is_reported => Some(greeting.since + options.patience),
            Role::Serving(serving) => serving.paused_until,
            _ => None,
        }
    }
}
