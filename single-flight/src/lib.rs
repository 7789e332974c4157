#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod blocking;
mod client;
pub mod codec;
mod coordinator;
mod driver;
mod error;
mod key;
mod lease;
mod lineage;
mod outcome;
mod protocol;
mod run;
mod safeguards;
mod single_flight;
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

pub use codec::Codec;
pub use error::{CloseError, OpenError, RunError, WaitingFor};
pub use flight_fencing::{Epoch, FencingToken};
pub use flight_lease::LeaseLost;
pub use key::Key;
pub use lease::Lease;
pub use outcome::{Failure, Outcome, OutcomeKind};
pub use protocol::Rejection;
pub use run::{Call, Flight, Joined, Run};
pub use single_flight::{Options, SingleFlight};
pub use status::{FlightPhase, FlightStatus, HeldStatus, HeldWhy, Status, StatusReport, WaitingStatus};

/// The README of the repository, so that its example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct RepositoryReadme;
