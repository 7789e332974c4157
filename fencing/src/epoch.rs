//! The number of a term.

use std::fmt;
use std::str::FromStr;

use crate::decimal::{self, DecimalFault};

/// The number of a **term**: the time for which one process is in charge of handing out tokens.
///
/// Each term has a greater epoch than every term before it, so that a newer term's tokens outrank an older one's. Whoever
/// elects keeps the last epoch durably, and takes the [`next`](Epoch::next) one before it hands out anything.
///
/// ```
/// use flight_fencing::Epoch;
///
/// let epoch: Epoch = "41".parse()?;
/// assert_eq!(epoch.next()?, Epoch::new(42));
/// assert_eq!(Epoch::new(42).to_string(), "42");
/// assert!(Epoch::MAX.next().is_err());        // refused, never wrapped
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The text is canonical decimal: digits only, without sign, white space or leading zero. With the feature `serde` an epoch
/// is a plain number; it fits every JSON reader.
#[doc(alias = "term")]
#[doc(alias = "generation")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u32);

impl Epoch {
    /// The lowest epoch, 0.
    pub const MIN: Epoch = Epoch(0);

    /// The last epoch, 4 294 967 295. It has no successor.
    pub const MAX: Epoch = Epoch(u32::MAX);

    /// The epoch with this number.
    #[must_use]
    pub const fn new(number: u32) -> Epoch {
        Epoch(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The epoch of the term after this one.
    ///
    /// # Errors
    ///
    /// [`EpochsSpent`] at [`Epoch::MAX`]. To begin again from a low number would let every stale holder through, so there
    /// is no wrapping form of this function.
    pub const fn next(self) -> Result<Epoch, EpochsSpent> {
        match self.0.checked_add(1) {
            Some(number) => Ok(Epoch(number)),
            None => Err(EpochsSpent),
        }
    }
}

/// The greatest possible epoch was in use, and there is none after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "no epoch follows {}, the greatest there is: tokens of a new term could not outrank the ones given out; begin again in a \
     new place, and reset every fence that has seen the old tokens",
    Epoch::MAX
)]
#[non_exhaustive]
pub struct EpochsSpent;

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Epoch> for u32 {
    fn from(epoch: Epoch) -> u32 {
        epoch.0
    }
}

impl From<u32> for Epoch {
    fn from(number: u32) -> Epoch {
        Epoch(number)
    }
}

/// A text is not an [`Epoch`]. The message shows the text, shortened and escaped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{shown} is not an epoch: {fault}")]
pub struct ParseEpochError {
    shown: String,
    fault: DecimalFault,
}

impl ParseEpochError {
    /// What is wrong with the text.
    #[must_use]
    pub fn fault(&self) -> &DecimalFault {
        &self.fault
    }
}

impl FromStr for Epoch {
    type Err = ParseEpochError;

    fn from_str(text: &str) -> Result<Epoch, ParseEpochError> {
        decimal::parse(text, u32::MAX.into())
            .map(Epoch)
            .map_err(|fault| ParseEpochError { shown: decimal::shown(text), fault })
    }
}

#[cfg(feature = "serde")]
mod wire {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Epoch;

    impl Serialize for Epoch {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_u32(self.0)
        }
    }

    impl<'de> Deserialize<'de> for Epoch {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Epoch, D::Error> {
            u32::deserialize(deserializer).map(Epoch)
        }
    }
}
