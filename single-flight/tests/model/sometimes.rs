//! What a set of runs must show, so that its promises are not kept for want of anything that happens.

use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sometimes {
    /// A joiner gets the outcome of a flight that began under an earlier coordinator.
    OutcomeAfterFailover,
    Interrupted,
    /// A flight has joiners and no leader that is heard.
    JoinedWhileOrphaned,
    /// A claim is answered `hold`.
    Hold,
    /// A grant is withdrawn before its work began.
    WithdrawnBeforeBegan,
    /// A rejoin is answered from the kept outcomes.
    KeptOutcomeUsed,
    /// A call joins a flight of its own process.
    LocalJoiner,
    /// Two entries of a process joined the same flight, and became one.
    Merged,
    /// A connection was closed because it took nothing.
    ClosedTheStalled,
    LeaseLost,
}

pub(crate) const ALL: [Sometimes; 10] = [
    Sometimes::OutcomeAfterFailover,
    Sometimes::Interrupted,
    Sometimes::JoinedWhileOrphaned,
    Sometimes::Hold,
    Sometimes::WithdrawnBeforeBegan,
    Sometimes::KeptOutcomeUsed,
    Sometimes::LocalJoiner,
    Sometimes::Merged,
    Sometimes::ClosedTheStalled,
    Sometimes::LeaseLost,
];

impl Sometimes {
    pub(crate) fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

impl World {
    pub(crate) fn notice(&mut self, what: Sometimes) {
        self.noticed |= what.bit();
    }
}
