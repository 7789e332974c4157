#![doc = include_str!("../README.md")]
#![cfg_attr(unix, forbid(unsafe_code))]

mod attention;
mod backoff;
mod codec;
mod connection;
mod error;
mod frame;
mod handshake;
pub mod memory;
mod outbox;
mod socket;
mod supervisor;
#[cfg(windows)]
mod user;

pub use flight_fencing::Epoch;

pub use crate::codec::{CodecError, FrameCodec, FrameDecoder};
pub use crate::connection::{Connection, ConnectionId, Peer, Written};
pub use crate::error::{AddressError, AttemptError, ServeStep};
pub use crate::frame::{DEFAULT_MAX_FRAME, Frame, FrameError, FrameFault};
pub use crate::handshake::{HandshakeError, Hello, ProtocolVersion};
pub use crate::supervisor::event::{DeposedReason, DisconnectReason, Event};
pub use crate::supervisor::options::Options;
pub use crate::supervisor::phase::Phase;
pub use crate::supervisor::term::Term;
pub use crate::supervisor::{Supervisor, SupervisorHandle};
