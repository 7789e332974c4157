#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod backoff;
mod copies;
mod election;
mod epoch_file;
mod error;
mod leadership;
mod transient;

pub use crate::election::Election;
pub use crate::epoch_file::EpochFault;
pub use crate::error::{CampaignError, CampaignStep, ResignError};
pub use crate::leadership::Leadership;
