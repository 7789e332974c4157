//! The promises of `flight-connection`, as its owner meets them.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]

mod codec;
mod pair;
mod party;
#[cfg(unix)]
mod unix;
