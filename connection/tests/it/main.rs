//! The promises of `flight-connection`, as its owner meets them.

mod codec;
mod pair;
mod party;
#[cfg(unix)]
mod unix;
