#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod decimal;
mod epoch;
mod fence;
mod token;
mod token_source;

pub use crate::decimal::DecimalFault;
pub use crate::epoch::{Epoch, EpochsSpent, ParseEpochError};
pub use crate::fence::{Fence, Stale};
pub use crate::token::{FencingToken, ParseTokenError};
pub use crate::token_source::{CounterSpent, TokenSource};
