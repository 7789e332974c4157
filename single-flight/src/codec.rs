//! How values become bytes: the trait, JSON, and bytes as they are.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;

/// How the value of a flight becomes bytes, and bytes the value.
///
/// A value that crosses processes has to be encoded. The leader's own value goes through the codec too, so that a leader
/// and its joiners get the same. Encoding and decoding happen in the work's task and the callers' tasks, never on the service thread.
pub trait Codec<T>: Send + Sync {
    /// The name of the encoding. A key whose leader and joiner name different ones is refused, so change the name when the
    /// encoding changes in a way that the old reader cannot read.
    fn name(&self) -> &str;

    /// Encodes a value.
    ///
    /// # Errors
    /// When the value cannot be encoded. It fails the flight, for the leader and for all joiners.
    fn encode(&self, value: &T) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

    /// Decodes a value.
    ///
    /// # Errors
    /// When the bytes are not of this encoding. It fails only the call that decodes.
    fn decode(&self, bytes: &[u8]) -> Result<T, Box<dyn Error + Send + Sync>>;
}

/// JSON through serde: the codec of [`SingleFlight::open`](crate::SingleFlight::open).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn name(&self) -> &'static str {
        "serde_json"
    }

    fn encode(&self, value: &T) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// The bytes themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes;

impl Codec<Vec<u8>> for Bytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn encode(&self, value: &Vec<u8>) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(bytes.to_vec())
    }
}
