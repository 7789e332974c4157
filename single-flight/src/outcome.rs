use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;

/// How a flight ended, as it travels: a kind, and bytes that only the two ends of the flight read.
///
/// The coordinator passes it on as it is. It never parses or copies the bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// What the bytes are.
    pub kind: OutcomeKind,
    /// The encoded value, or the JSON of a [`Failure`].
    pub payload: Bytes,
}

/// What the bytes of an [`Outcome`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The work's value, in the encoding of the flight's codec. Zero bytes are a value too.
    Value,
    /// The work's failure, as the JSON of a [`Failure`].
    Failure,
}

impl Outcome {
    /// The outcome of a work that returned a value.
    pub fn value(encoded: impl Into<Bytes>) -> Self {
        Outcome { kind: OutcomeKind::Value, payload: encoded.into() }
    }

    /// The outcome of a work that failed.
    pub fn failure(failure: &Failure) -> Self {
        let json = serde_json::to_vec(failure).expect("a failure is text and numbers: it always encodes");
        Outcome { kind: OutcomeKind::Failure, payload: json.into() }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} bytes)", self.kind, self.payload.len())
    }
}

/// What the joiners of a flight learn of a work that failed: the leader's error, as text.
///
/// An error value cannot cross a process, so its message and those of its causes do. The leader's own call gets
/// the error itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure: `error` for an error that the work returned, [`Failure::PANIC`], [`Failure::ABORTED`],
    /// [`Failure::ENCODE`] or [`Failure::TOO_LARGE`].
    pub name: String,
    /// The error's message.
    pub message: String,
    /// The operating system's error number, or a status of the work's own, when the error had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The messages of the error's sources, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl Failure {
    /// The name of the failure of a work that returned an error.
    pub const ERROR: &str = "error";
    /// The name of the failure of a work that panicked.
    pub const PANIC: &str = "panic";
    /// The name of the failure of a work that ended without a result: its task was aborted, its runtime dropped.
    pub const ABORTED: &str = "aborted";
    /// The name of the failure of a work whose value the codec could not encode.
    pub const ENCODE: &str = "encode";
    /// The name of the failure of a work whose encoded value is longer than a frame may be.
    pub const TOO_LARGE: &str = "too_large";

    /// A failure with a name and a message.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Failure { name: name.into(), message: message.into(), code: None, causes: Vec::new() }
    }

    /// What joiners learn of `error`: its message, its operating system error number, the messages of its sources.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut failure = Failure::new(Failure::ERROR, error.to_string());
        let mut next = Some(error);
        while let Some(error) = next {
            if failure.code.is_none() {
                failure.code = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
            }
            next = error.source();
            if let Some(cause) = next {
                failure.causes.push(cause.to_string());
            }
        }
        failure
    }

    /// What joiners learn of a panic. A payload that is not text keeps only the fact.
    pub fn of_panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let text =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Failure::new(Failure::PANIC, text.unwrap_or("the work panicked with a payload that is not text"))
    }

    /// Reads a failure as it travelled. Text that is no failure becomes one that says so: nothing is lost.
    pub fn decode(payload: &[u8]) -> Self {
        serde_json::from_slice(payload).unwrap_or_else(|error| {
            Failure::new(
                Failure::ERROR,
                format!("the leader's failure could not be read ({error}): {}", String::from_utf8_lossy(payload)),
            )
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name != Failure::ERROR {
            write!(f, "{}: ", self.name)?;
        }
        write!(f, "{}", self.message)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::{Failure, Outcome};
    use std::io;

    #[test]
    fn an_errors_number_and_causes_travel() {
        #[derive(Debug, thiserror::Error)]
        #[error("could not build")]
        struct Build(#[source] io::Error);
        let failure = Failure::of(&Build(io::Error::from_raw_os_error(28)));
        assert_eq!((failure.message.as_str(), failure.code, failure.causes.len()), ("could not build", Some(28), 1));
        assert_eq!(Failure::decode(&Outcome::failure(&failure).payload), failure);
    }

    #[test]
    fn a_panic_keeps_its_text_or_at_least_the_fact() {
        assert_eq!(Failure::of_panic(&"boom").message, "boom");
        assert_eq!(Failure::of_panic(&String::from("boom")).message, "boom");
        assert!(Failure::of_panic(&7_u8).message.contains("not text"));
    }

    #[test]
    fn bytes_that_are_no_failure_become_one() {
        assert!(Failure::decode(b"gibberish").message.contains("gibberish"));
    }
}
