//! The two files of an election, and the order in which the epoch is written to them.
//!
//! | file | is | the epoch in it |
//! |---|---|---|
//! | `flight.epoch` | replaced as a whole: the name leads to the old text or to the new one, never to a part | written first |
//! | `flight.lock` | locked, so that it must stay the same file and is written in place: a crash may leave a torn text | written second |
//!
//! Invariants:
//! 1. Before a term begins, both files hold its epoch durably. So each of them alone, if it can be read, is at or above every
//!    epoch that ever led, and losing the other one loses nothing.
//! 2. At each moment of the writing one file can be read and is at or above every epoch that ever led: before `flight.epoch` is
//!    replaced that is whatever was read, and after it the new `flight.epoch`. The other order would break it when `flight.epoch` was
//!    damaged before: a crash would tear the only good copy.
//! 3. Only the holder of the lock writes, and looks before and after whether it holds the lock that others would take. See
//!    [`write`].

use std::fs;
use std::io;
use std::path::PathBuf;

use flight_fencing::Epoch;
use flight_key_lock::{LocalDirectory, LockFile};

use crate::epoch_file::{self, Stored};
use crate::error::{CampaignError, CampaignStep};

/// The file whose kernel lock is the term. Never removed: see the crate's page.
pub(crate) const LOCK_FILE: &str = "flight.lock";

/// The file with the last epoch.
pub(crate) const EPOCH_FILE: &str = "flight.epoch";

/// What both files hold: `flight.epoch`, then `flight.lock`.
pub(crate) fn read(directory: &LocalDirectory, lock: &mut LockFile) -> Result<(Stored, Stored), CampaignError> {
    let epoch_file = match directory.read(EPOCH_FILE) {
        Ok(bytes) => Stored::in_epoch_file(bytes.as_deref()),
        Err(source) => return Err(failed(directory, CampaignStep::ReadEpoch, EPOCH_FILE, source)),
    };
    // Through the handle that has the lock: Windows lets no other handle read what is locked.
    match lock.read_text() {
        Ok(bytes) => Ok((epoch_file, Stored::in_lock_file(&bytes))),
        Err(source) => Err(failed(directory, CampaignStep::ReadSecondCopy, LOCK_FILE, source)),
    }
}

/// Writes both copies, durably. When it returns `Ok`, no other process has led with this epoch, and none will come to lead with it or
/// with a lower one.
///
/// It fails without a second try: after a failed fsync the kernel may count the lost pages as written, so that a second fsync
/// of the same data would succeed and prove nothing. The next campaign writes another number.
pub(crate) fn write(directory: &LocalDirectory, lock: &mut LockFile, epoch: Epoch) -> Result<(), CampaignError> {
    // A holder that was frozen since it read the epochs, and whose lock file was replaced meanwhile, must not put its number over
    // the greater one of its successor.
    check(directory, lock)?;
    sweep(directory);
    if let Err(error) = write_both(directory, lock, &epoch_file::text(epoch)) {
        // Whoever leads by now may have swept what we were writing: then that is what went wrong.
        check(directory, lock)?;
        return Err(error);
    }
    // Again, and not before the writing: who locks a replacement of the lock file after this look reads the epoch just
    // written, and takes a greater one. Who had locked a replacement earlier may have read the same old epoch as we did, and
    // chosen the same new one; then the replacement is there by now, and this look finds it.
    check(directory, lock)
}

fn write_both(directory: &LocalDirectory, lock: &mut LockFile, text: &str) -> Result<(), CampaignError> {
    // First, by invariant 2.
    directory.replace_durably(EPOCH_FILE, text.as_bytes()).map_err(|source| match source.kind() {
        // Nobody but the holder of a lock removes the new file, and we are one: so there were two, and there may be two still.
        io::ErrorKind::NotFound => CampaignError::LockReplaced { path: path(directory, LOCK_FILE) },
        _ => failed(directory, CampaignStep::WriteEpoch, EPOCH_FILE, source),
    })?;
    lock.write_text(text).map_err(|source| failed(directory, CampaignStep::WriteSecondCopy, LOCK_FILE, source))
}

/// Removes what campaigns left behind that were killed while they replaced `flight.epoch`: the new file, not yet under its name.
///
/// Called with the lock held: nobody who leads or may come to lead is writing one then. It helps where it can, and what it cannot
/// remove is no obstacle.
fn sweep(directory: &LocalDirectory) {
    let Ok(entries) = fs::read_dir(directory.path()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_left_over(name)
            && let Err(error) = directory.remove(name)
        {
            tracing::debug!(directory = %directory.path().display(), name, %error, "a left-over file stays");
        }
    }
}

/// The time in such a name is in nanoseconds: this many digits at least, from five hours after 1970 on.
const TIME_DIGITS: usize = 12;

/// Whether it has a name such as [`LocalDirectory::replace_durably`] gives to its new file: `flight.epoch.<process>-<time>-<number>`,
/// with the time in hexadecimal. A person's `flight.epoch.bak` or `flight.epoch.2026-12-01` has not.
fn is_left_over(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(EPOCH_FILE).and_then(|rest| rest.strip_prefix('.')) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = |text: &str| text.len() >= TIME_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match rest.split('-').collect::<Vec<_>>()[..] {
        [process, time, number] => is_number(process) && is_time(time) && is_number(number),
        _ => false,
    }
}

/// That the lock is the one which any other process would try to take.
fn check(directory: &LocalDirectory, lock: &LockFile) -> Result<(), CampaignError> {
    // Asked by itself first, since the answer names the cure: another directory has to be opened.
    check_directory(directory)?;
    match lock.is_current() {
        Ok(true) => Ok(()),
        Ok(false) => Err(CampaignError::LockReplaced { path: path(directory, LOCK_FILE) }),
        Err(source) => Err(failed(directory, CampaignStep::CheckLock, LOCK_FILE, source)),
    }
}

/// That the path of the directory leads to it.
pub(crate) fn check_directory(directory: &LocalDirectory) -> Result<(), CampaignError> {
    match directory.is_current() {
        Ok(true) => Ok(()),
        Ok(false) => Err(CampaignError::DirectoryReplaced { directory: directory.path().to_owned() }),
        Err(source) => {
            Err(CampaignError::Io { step: CampaignStep::CheckDirectory, path: directory.path().to_owned(), source })
        }
    }
}

pub(crate) fn path(directory: &LocalDirectory, name: &str) -> PathBuf {
    directory.path().join(name)
}

fn failed(directory: &LocalDirectory, step: CampaignStep, name: &str, source: io::Error) -> CampaignError {
    CampaignError::Io { step, path: path(directory, name), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_replacement_left_behind_is_swept() {
        for name in ["flight.epoch.4242-187d1a5b2c3d4e5f-0", "flight.epoch.1-187d1a5b2c3d4e5f-17"] {
            assert!(is_left_over(name), "{name}");
        }
        for name in [
            "flight.epoch",
            "flight.epoch.",
            "flight.epoch.bak",
            "flight.epoch.2026-12-01",
            "flight.epoch.2026-12-01.bak",
            "flight.epoch.1-2",
            "flight.epoch.1--2",
            "flight.epoch.1-187d1a5b2c3d4e5f-",
            "flight.epoch.1-2-3-4",
            "flight.epochs.1-187d1a5b2c3d4e5f-3",
            "flight.lock.1-187d1a5b2c3d4e5f-3",
            "flight.lock",
            "notes",
        ] {
            assert!(!is_left_over(name), "{name}");
        }
    }
}
