//! The promises of `flight-fencing`, as a user meets them.

mod fence;
#[cfg(feature = "serde")]
mod serde;
mod text;
mod tokens;
