#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod controller;
mod error;
mod lease;

pub use crate::controller::LeaseController;
pub use crate::error::LeaseLost;
pub use crate::lease::Lease;
