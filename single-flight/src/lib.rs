//! Callers of one key share the flight in progress, in one process and across the processes of a host.
mod client;
mod coordinator;
mod key;
mod outcome;
mod protocol;
mod safeguards;
mod status;

/// The state machines themselves, without I/O: for those who check, simulate, fuzz or draw the protocol.
///
/// The library's own driver runs exactly these types. They are not covered by the promise of compatibility that the rest of
/// the crate keeps.
pub mod machines {
    /// What happens to a client, and what it wants done.
    pub mod client {
        pub use crate::client::*;
    }
    /// What happens to a coordinator, and what it wants done.
    pub mod coordinator {
        pub use crate::coordinator::*;
    }
    /// The messages between them.
    pub mod protocol {
        pub use crate::protocol::*;
    }
    pub use crate::safeguards::Safeguard;
    #[cfg(feature = "sabotage")]
    pub use crate::safeguards::switch_off;
}

pub use key::Key;
pub use outcome::{Failure, Outcome, OutcomeKind};
pub use status::{FlightPhase, FlightStatus, StatusReport, WaitingStatus};
