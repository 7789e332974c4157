//! The number that outlives the lock it was given out with.

use std::fmt;
use std::str::FromStr;

use crate::decimal::{self, DecimalFault};
use crate::epoch::Epoch;

/// A number that grows with each holder of a lock, to be sent along with every write that the lock protects.
///
/// ```text
///  63            32 31             0
/// +----------------+----------------+
/// |     epoch      |    counter     |      one u64, compared as one number
/// +----------------+----------------+
/// ```
///
/// The [epoch](Epoch) numbers the term, and the counter numbers the tokens within it. Comparing the whole number compares the
/// epochs first: **every token of a newer term outranks every token of an older one**, without the two having spoken to
/// each other.
///
/// ```
/// use flight_fencing::{Epoch, FencingToken};
///
/// let old = FencingToken::new(Epoch::new(3), 900);
/// let new = FencingToken::new(Epoch::new(4), 1);
/// assert!(old < new);
/// assert_eq!(new.as_u64(), (4 << 32) + 1);
/// assert_eq!(new.to_string(), "17179869185");
/// assert_eq!("17179869185".parse(), Ok(new));
/// ```
///
/// # As text
///
/// Canonical decimal of the whole number: ASCII digits only, no sign, no white space, no leading zero. One token has exactly one
/// text, and everything else is refused.
///
/// With the feature `serde` a token is that text too, **a string and not a number**: many JSON readers keep numbers as floating
/// point, which is exact up to 2^53 only. From epoch 2 097 152 on such a reader would change the token silently, and an epoch
/// that began at a time in seconds is past that.
#[doc(alias = "sequencer")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token `counter` of the term `epoch`.
    ///
    /// Use a [`TokenSource`](crate::TokenSource) to hand out tokens; this is for those who have both numbers already.
    #[must_use]
    pub const fn new(epoch: Epoch, counter: u32) -> FencingToken {
        FencingToken(((epoch.get() as u64) << u32::BITS) | counter as u64)
    }

    /// The term that handed it out: the high 32 bits.
    #[must_use]
    pub const fn epoch(self) -> Epoch {
        // The shift leaves 32 bits, so that nothing is cut off.
        Epoch::new((self.0 >> u32::BITS) as u32)
    }

    /// Its number within the term: the low 32 bits. A [`TokenSource`](crate::TokenSource) counts from 1.
    #[must_use]
    pub const fn counter(self) -> u32 {
        // Cutting off the epoch is the purpose.
        self.0 as u32
    }

    /// The token that is this number. Each `u64` is one.
    #[must_use]
    pub const fn from_u64(number: u64) -> FencingToken {
        FencingToken(number)
    }

    /// The whole number, such as a database keeps it beside a row. (Its order must be unsigned.)
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencingToken").field("epoch", &self.epoch().get()).field("counter", &self.counter()).finish()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> u64 {
        token.0
    }
}

impl From<u64> for FencingToken {
    fn from(number: u64) -> FencingToken {
        FencingToken(number)
    }
}

/// A text is not a [`FencingToken`]. The message shows the text, shortened and escaped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{shown} is not a fencing token: {fault}")]
pub struct ParseTokenError {
    shown: String,
    fault: DecimalFault,
}

impl ParseTokenError {
    /// What is wrong with the text.
    #[must_use]
    pub fn fault(&self) -> &DecimalFault {
        &self.fault
    }
}

impl FromStr for FencingToken {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<FencingToken, ParseTokenError> {
        decimal::parse(text, u64::MAX)
            .map(FencingToken)
            .map_err(|fault| ParseTokenError { shown: decimal::shown(text), fault })
    }
}

#[cfg(feature = "serde")]
mod wire {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::FencingToken;

    impl Serialize for FencingToken {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for FencingToken {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FencingToken, D::Error> {
            deserializer.deserialize_str(TokenText)
        }
    }

    /// Takes text and nothing else: a number may have lost its last digits already on its way here.
    struct TokenText;

    impl Visitor<'_> for TokenText {
        type Value = FencingToken;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a fencing token as a decimal string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<FencingToken, E> {
            text.parse().map_err(E::custom)
        }
    }
}
