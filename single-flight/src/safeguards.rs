//! The safeguards of the protocol, by name, so that a test can switch one off and see who notices.
//!
//! Without the feature `sabotage` every safeguard is on and this module is one constant: the switches do not exist. The
//! feature does not compile without debug assertions, so no release build can have them.

/// One safeguard. The number is its rule in `PROTOCOL.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "sabotage"), allow(dead_code, reason = "named for the tests that switch one off"))]
pub enum Safeguard {
    /// 1. The key lock is held until the landing is acknowledged.
    HoldUntilAck,
    /// 2. Every joiner's outcome is in its socket before the acknowledgement goes out.
    DeliverThenAcknowledge,
    /// 2. A joiner that takes nothing has its connection closed.
    CloseTheStalled,
    /// 2. An outcome that goes to a late rejoin before the acknowledgement counts for the acknowledgement.
    CountTheLateOutcome,
    /// 3. A lost connection is not a death.
    OrphanIsNoDeath,
    /// 4. The coordinator looks at the key lock where it cannot hear the holder.
    WatchTheLock,
    /// 4. What was received is read before a free lock is taken for a death.
    ReadDryBeforeDeath,
    /// 4. Only what was noted while the lock was held is decided.
    DecideOnlyTheNoted,
    /// 5. A claim that meets another known flight is answered `hold`.
    HoldTheLateClaim,
    /// 5. Only an answer about that very flight displaces it.
    HoldTheLateAnswer,
    /// 6. Callers join only a flight that began.
    JoinOnlyTheBegun,
    /// 7. A reassertion or landing below the newest begun token is refused.
    RefuseTheOutdated,
    /// 8. A rejoin of an unknown flight waits.
    UnknownRejoinWaits,
    /// 8. The kept outcomes are looked at before a known flight answers a rejoin.
    KeptBeforeKnown,
    /// 9. Outcomes are kept for those who rejoin late.
    KeepOutcomes,
    /// 10. Claims and landings are said again before joins and rejoins.
    ClaimsFirst,
    /// 11. The leader's connection is read dry before a join is answered.
    ReadDryBeforeJoined,
    /// 11. A landing serves only those who had joined, not those who wait.
    LandingServesJoinersOnly,
    /// 12. A connection's end withdraws what hung on it.
    StateHangsOnConnection,
    /// 12. A client's newer connection ends its older ones.
    NewerConnectionCounts,
    /// 13. A work that ended without a result lands `aborted`.
    LandTheAborted,
    /// A caller that left before `go` is withdrawn at the coordinator too.
    TellTheCancel,
    /// A caller attaches only to an entry of which nothing was asked yet, or that leads.
    AttachOnlyToTheFresh,
    /// A coordinator whose lock was replaced grants nothing.
    CheckTermBeforeGrant,
    /// A leader whose lock was replaced loses its lease.
    CheckKeyLock,
    /// A token comes only from a term that is above every epoch seen.
    TokensGrow,
    /// A claim is said again only by who holds the lock still.
    CheckBeforeOver,
    /// A close withdraws the running flight, so that its joiners hear `interrupted`.
    CloseWithdraws,
}

#[cfg(feature = "sabotage")]
impl Safeguard {
    /// Every safeguard that can be switched off.
    pub const ALL: [Safeguard; 28] = [
        Safeguard::HoldUntilAck,
        Safeguard::DeliverThenAcknowledge,
        Safeguard::CloseTheStalled,
        Safeguard::CountTheLateOutcome,
        Safeguard::OrphanIsNoDeath,
        Safeguard::WatchTheLock,
        Safeguard::ReadDryBeforeDeath,
        Safeguard::DecideOnlyTheNoted,
        Safeguard::HoldTheLateClaim,
        Safeguard::HoldTheLateAnswer,
        Safeguard::JoinOnlyTheBegun,
        Safeguard::RefuseTheOutdated,
        Safeguard::UnknownRejoinWaits,
        Safeguard::KeptBeforeKnown,
        Safeguard::KeepOutcomes,
        Safeguard::ClaimsFirst,
        Safeguard::ReadDryBeforeJoined,
        Safeguard::LandingServesJoinersOnly,
        Safeguard::StateHangsOnConnection,
        Safeguard::NewerConnectionCounts,
        Safeguard::LandTheAborted,
        Safeguard::TellTheCancel,
        Safeguard::AttachOnlyToTheFresh,
        Safeguard::CheckTermBeforeGrant,
        Safeguard::CheckKeyLock,
        Safeguard::TokensGrow,
        Safeguard::CheckBeforeOver,
        Safeguard::CloseWithdraws,
    ];
}

#[cfg(not(feature = "sabotage"))]
pub(crate) const fn on(_: Safeguard) -> bool {
    true
}

#[cfg(feature = "sabotage")]
pub(crate) use switches::on;

#[cfg(feature = "sabotage")]
pub use switches::switch_off;

#[cfg(all(feature = "sabotage", not(debug_assertions)))]
compile_error!(
    "the feature `sabotage` switches safeguards off: it exists for tests with debug assertions, never for a release build"
);

#[cfg(feature = "sabotage")]
mod switches {
    use super::Safeguard;
    use std::sync::OnceLock;

    static OFF: OnceLock<Option<Safeguard>> = OnceLock::new();

    /// Switches one safeguard off, or none, for this whole process. Only the first call counts.
    pub fn switch_off(safeguard: Option<Safeguard>) {
        OFF.get_or_init(|| safeguard);
    }

    pub(crate) fn on(safeguard: Safeguard) -> bool {
        OFF.get().is_none_or(|off| *off != Some(safeguard))
    }
}
