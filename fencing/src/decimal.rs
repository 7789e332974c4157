//! Canonical decimal text: the one way in which a number of this crate is written, and the only one in which it is read.
//!
//! A number has exactly one text. So two tokens are equal when their texts are, a text that was cut short or padded by a
//! failing disk is refused rather than read as another number, and nobody depends on `+7` or `007` being taken.

use std::str::FromStr;

/// Why a text is not a number in canonical decimal form.
///
/// The form is: ASCII digits and nothing else; no sign, no white space, no leading zero (except the number `0` itself).
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DecimalFault {
    /// There is no text at all.
    #[error("it is empty, and one decimal number was expected")]
    Empty,
    /// A character that is not one of the ASCII digits `0` to `9`.
    #[error("{found:?} at byte {at} is not an ASCII digit")]
    NotADigit {
        /// The first such character.
        found: char,
        /// Its offset in the text, in bytes.
        at: usize,
    },
    /// A zero before the first digit that counts.
    #[error("a leading zero is not allowed")]
    LeadingZero,
    /// More than the type can hold.
    #[error("it is greater than {max}, the greatest possible")]
    TooLarge {
        /// The greatest number that is allowed here.
        max: u64,
    },
}

/// Reads a canonical decimal. `max` is `N::MAX`; it only serves the message.
pub(crate) fn parse<N: FromStr>(text: &str, max: u64) -> Result<N, DecimalFault> {
    if text.is_empty() {
        return Err(DecimalFault::Empty);
    }
    if let Some((at, found)) = text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        return Err(DecimalFault::NotADigit { found, at });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(DecimalFault::LeadingZero);
    }
    // Digits alone remain, so that the one thing that can go wrong is the size.
    text.parse().map_err(|_| DecimalFault::TooLarge { max })
}

/// As many characters of a refused text as a message shows: a whole `u64` and a little of what follows it.
const SHOWN: usize = 32;

/// A refused text for a message: shortened, so that a file of garbage does not fill the log, and escaped, so that it cannot
/// forge one.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(SHOWN).collect();
    let rest = chars.as_str().len();
    if rest == 0 { format!("{head:?}") } else { format!("{head:?} (and {rest} bytes more)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_shown_whole_and_a_long_one_with_what_is_missing() {
        assert_eq!(shown("12"), r#""12""#);
        assert_eq!(shown(&"7".repeat(SHOWN)), format!("{:?}", "7".repeat(SHOWN)));
        assert_eq!(shown(&"7".repeat(SHOWN + 9)), format!("{:?} (and 9 bytes more)", "7".repeat(SHOWN)),);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown("\0\n\u{1b}[31m"), r#""\0\n\u{1b}[31m""#);
    }
}
