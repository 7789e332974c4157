//! An epoch as text on disk, and which epoch follows what was found there. Pure: bytes come in, a number goes out.
//!
//! The text has one form: the number in canonical decimal and a line feed. Two places hold it, `flight.epoch` and `flight.lock`
//! (see [`crate::copies`] for how they are written).
//!
//! Invariants:
//! 1. A text is taken whole or not at all. The line feed proves that its end was written; without it `12` may be what is left of
//!    `1234`.
//! 2. The epoch that follows is above every copy that can be read and above every epoch that somebody has seen.
//! 3. The clock is asked in one case only: when there is no copy, readable or not. So a clock that steps back never takes an epoch
//!    back with it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flight_fencing::{Epoch, EpochsSpent, ParseEpochError};

/// The longest text that can be an epoch: the ten digits of [`Epoch::MAX`] and the line feed.
const LONGEST: usize = 11;

/// The highest epoch that a new directory may begin with: as a time it is in the year 2096.
///
/// A clock that is wrong by a century would otherwise leave no epoch for the second term. This leaves 294 967 295 of them, which is
/// one each second for nine years.
const HIGHEST_FIRST: u32 = 4_000_000_000;

/// Why the text of an epoch on disk cannot be read.
///
/// The form is: decimal digits without a sign or leading zeros, then one line feed, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EpochFault {
    /// There is no file.
    #[error("it is missing")]
    Missing,
    /// The file has no bytes.
    #[error("it is empty")]
    Empty,
    /// The file is longer than any epoch.
    #[error("it has more than the {LONGEST} bytes that an epoch can have")]
    TooLong,
    /// The last byte is not a line feed: the rest of a text that was cut off, or never an epoch.
    #[error("it does not end with a line feed")]
    NoLineFeed,
    /// The bytes before the line feed are not text.
    #[error("it is not text")]
    NotText,
    /// The text before the line feed is not an epoch.
    #[error("{0}")]
    NotAnEpoch(Box<ParseEpochError>),
}

/// What one of the two places was found to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Nothing was ever written there: no `flight.epoch`, or a `flight.lock` without a byte, as its creation leaves it.
    Nothing,
    /// An epoch.
    Readable(Epoch),
    /// Bytes that are no epoch.
    Unreadable(EpochFault),
}

impl Stored {
    /// What `flight.epoch` holds; `None` is a missing file.
    ///
    /// An empty file counts as damage, not as "nothing": no step of ours leaves one, since the file appears under its name with its
    /// text already on the disk.
    pub(crate) fn in_epoch_file(bytes: Option<&[u8]>) -> Stored {
        bytes.map_or(Stored::Nothing, |bytes| match parse(bytes) {
            Ok(epoch) => Stored::Readable(epoch),
            Err(fault) => Stored::Unreadable(fault),
        })
    }

    /// What `flight.lock` holds. Empty is how it is created, so that it says nothing.
    pub(crate) fn in_lock_file(bytes: &[u8]) -> Stored {
        match parse(bytes) {
            Ok(epoch) => Stored::Readable(epoch),
            Err(EpochFault::Empty) => Stored::Nothing,
            Err(fault) => Stored::Unreadable(fault),
        }
    }

    fn epoch(&self) -> Option<Epoch> {
        match self {
            Stored::Readable(epoch) => Some(*epoch),
            Stored::Nothing | Stored::Unreadable(_) => None,
        }
    }

    /// What is wrong with this copy, for a message that needs both.
    fn fault(self, nothing: EpochFault) -> EpochFault {
        match self {
            Stored::Unreadable(fault) => fault,
            Stored::Nothing | Stored::Readable(_) => nothing,
        }
    }
}

/// Why no epoch follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoNext {
    /// There was an epoch, and no copy of it can be read.
    Unreadable { epoch_file: EpochFault, lock_file: EpochFault },
    /// `flight.epoch` holds the greatest epoch.
    SpentInEpochFile(EpochsSpent),
    /// `flight.lock` holds the greatest epoch.
    SpentInLockFile(EpochsSpent),
    /// Somebody has seen the greatest epoch.
    SpentElsewhere(EpochsSpent),
}

/// The epoch of the next term. `clock` is asked as invariant 3 says.
pub(crate) fn next(
    epoch_file: Stored,
    lock_file: Stored,
    seen: Option<Epoch>,
    clock: impl FnOnce() -> SystemTime,
) -> Result<Epoch, NoNext> {
    if epoch_file == Stored::Nothing && lock_file == Stored::Nothing {
        let first = first(clock());
        return match seen {
            Some(seen) if seen >= first => seen.next().map_err(NoNext::SpentElsewhere),
            Some(_) | None => Ok(first),
        };
    }
    let (in_epoch_file, in_lock_file) = (epoch_file.epoch(), lock_file.epoch());
    if in_epoch_file.is_none() && in_lock_file.is_none() {
        // Not even `seen` helps here: it is what one client happens to know, and others may know more.
        return Err(NoNext::Unreadable {
            epoch_file: epoch_file.fault(EpochFault::Missing),
            lock_file: lock_file.fault(EpochFault::Empty),
        });
    }
    let after = |epoch: Option<Epoch>, spent: fn(EpochsSpent) -> NoNext| {
        epoch.map_or(Ok(Epoch::MIN), Epoch::next).map_err(spent)
    };
    let next = after(in_epoch_file, NoNext::SpentInEpochFile)?
        .max(after(in_lock_file, NoNext::SpentInLockFile)?)
        .max(after(seen, NoNext::SpentElsewhere)?);
    Ok(next)
}

/// The first epoch of a directory that has none: the time in seconds.
///
/// Were it 1, a directory that was wiped would be locked out by every fence that remembers the terms before. The time is above
/// those as long as there was less than one term a second on average.
fn first(now: SystemTime) -> Epoch {
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = u32::try_from(since_1970.as_secs()).unwrap_or(u32::MAX);
    Epoch::new(seconds.clamp(1, HIGHEST_FIRST))
}

/// The text of `epoch`, the only one that [`parse`] takes for it.
pub(crate) fn text(epoch: Epoch) -> String {
    format!("{epoch}\n")
}

/// The epoch in the bytes of one of the files.
pub(crate) fn parse(bytes: &[u8]) -> Result<Epoch, EpochFault> {
    if bytes.is_empty() {
        return Err(EpochFault::Empty);
    }
    if bytes.len() > LONGEST {
        return Err(EpochFault::TooLong);
    }
    let digits = bytes.strip_suffix(b"\n").ok_or(EpochFault::NoLineFeed)?;
    std::str::from_utf8(digits)
        .map_err(|_| EpochFault::NotText)?
        .parse()
        .map_err(|error| EpochFault::NotAnEpoch(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(number: u32) -> Stored {
        Stored::Readable(Epoch::new(number))
    }

    fn damaged() -> Stored {
        Stored::Unreadable(EpochFault::NoLineFeed)
    }

    fn no_clock() -> SystemTime {
        panic!("the clock was asked although a copy is there")
    }

    fn at(seconds: u64) -> impl FnOnce() -> SystemTime {
        move || UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn every_epoch_is_read_from_its_own_text() {
        for number in [0, 1, 9, 10, 1_764_553_021, u32::MAX - 1, u32::MAX] {
            let epoch = Epoch::new(number);
            assert_eq!(parse(text(epoch).as_bytes()), Ok(epoch));
            assert!(text(epoch).len() <= LONGEST);
        }
    }

    #[test]
    fn no_text_is_an_epoch_but_its_own() {
        // Everything that is one edit away from the text of an epoch is either refused, or the text of another epoch.
        let whole = text(Epoch::new(1_764_553_021)).into_bytes();
        for at in 0..=whole.len() {
            for byte in 0..=u8::MAX {
                let mut longer = whole.clone();
                longer.insert(at, byte);
                let mut other = whole.clone();
                if let Some(place) = other.get_mut(at) {
                    *place = byte;
                }
                for bytes in [&longer, &other] {
                    if let Ok(epoch) = parse(bytes) {
                        assert_eq!(text(epoch).as_bytes(), bytes.as_slice());
                    }
                }
            }
            if at < whole.len() {
                parse(&whole[..at]).expect_err("a text that was cut short");
            }
        }
    }

    #[test]
    fn damage_is_named() {
        let cases: [(&[u8], &str); 12] = [
            (b"", "empty"),
            (b"\0\0\0\0\0\0\0\0", "line feed"),
            (b"12", "line feed"),
            (b"12\n12", "line feed"),
            (b"12\n12\n", "not an ASCII digit"),
            (b"1234567890123456789012345678901234567890\n", "more than the 11 bytes"),
            (b"-1\n", "not an ASCII digit"),
            (b"4294967296\n", "greater than"),
            (b"012\n", "leading zero"),
            (b"12\r\n", "not an ASCII digit"),
            (b"\n", "empty"),
            (b"\xff\xfe\x80\n", "not text"),
        ];
        for (bytes, words) in cases {
            let fault = parse(bytes).expect_err("damage").to_string();
            assert!(fault.contains(words), "{bytes:?}: {fault}");
        }
    }

    #[test]
    fn the_higher_copy_counts_and_a_seen_epoch_above_both() {
        let cases = [
            (readable(7), readable(9), None, 10),
            (readable(9), readable(7), None, 10),
            (readable(9), Stored::Nothing, None, 10),
            (readable(9), damaged(), None, 10),
            (Stored::Nothing, readable(9), None, 10),
            (damaged(), readable(9), None, 10),
            (readable(9), readable(9), Some(8), 10),
            (readable(9), readable(9), Some(30), 31),
            (damaged(), readable(9), Some(30), 31),
            (readable(0), readable(0), None, 1),
        ];
        for (epoch_file, lock_file, seen, expected) in cases {
            let seen = seen.map(Epoch::new);
            let found = next(epoch_file.clone(), lock_file.clone(), seen, no_clock);
            assert_eq!(found, Ok(Epoch::new(expected)), "{epoch_file:?} {lock_file:?} {seen:?}");
        }
    }

    #[test]
    fn without_a_readable_copy_of_an_epoch_that_was_there_nothing_follows() {
        for (epoch_file, lock_file) in
            [(damaged(), damaged()), (damaged(), Stored::Nothing), (Stored::Nothing, damaged())]
        {
            for seen in [None, Some(Epoch::new(50))] {
                assert!(matches!(
                    next(epoch_file.clone(), lock_file.clone(), seen, no_clock),
                    Err(NoNext::Unreadable { .. })
                ));
            }
        }
    }

    #[test]
    fn the_greatest_epoch_has_no_successor_wherever_it_stands() {
        let max = || Stored::Readable(Epoch::MAX);
        let spent = |epoch_file, lock_file, seen| next(epoch_file, lock_file, seen, at(9));
        assert!(matches!(spent(max(), readable(3), None), Err(NoNext::SpentInEpochFile(_))));
        assert!(matches!(spent(readable(3), max(), None), Err(NoNext::SpentInLockFile(_))));
        assert!(matches!(spent(damaged(), max(), None), Err(NoNext::SpentInLockFile(_))));
        let seen = Some(Epoch::MAX);
        assert!(matches!(spent(readable(3), readable(3), seen), Err(NoNext::SpentElsewhere(_))));
        assert!(matches!(spent(Stored::Nothing, Stored::Nothing, seen), Err(NoNext::SpentElsewhere(_))));
        let last = Stored::Readable(Epoch::new(u32::MAX - 1));
        assert_eq!(spent(last, readable(3), None), Ok(Epoch::MAX));
    }

    #[test]
    fn a_new_directory_begins_at_the_time_whatever_the_clock_says() {
        let fresh = |seconds, seen| next(Stored::Nothing, Stored::Nothing, seen, at(seconds));
        assert_eq!(fresh(1_764_553_021, None), Ok(Epoch::new(1_764_553_021)));
        assert_eq!(fresh(0, None), Ok(Epoch::new(1)));
        assert_eq!(fresh(u64::from(u32::MAX) + 9, None), Ok(Epoch::new(HIGHEST_FIRST)));
        assert_eq!(fresh(100, Some(Epoch::new(99))), Ok(Epoch::new(100)));
        assert_eq!(fresh(100, Some(Epoch::new(100))), Ok(Epoch::new(101)));
        let before_1970 = || UNIX_EPOCH - Duration::from_secs(86_400);
        assert_eq!(next(Stored::Nothing, Stored::Nothing, None, before_1970), Ok(Epoch::new(1)));
    }
}
