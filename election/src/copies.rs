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
//!
//! What that does not cover: a holder that is stalled between its first look and the rename (an fsync lies between them), while the
//! lock file is removed twice and two others are elected, puts its older number over theirs, finds itself replaced, and fails. The
//! files are then one number behind, and the next term may have the number of the last one. It takes somebody who removes lock
//! files over and over; the rule that nobody does is the base of every lock file.

use std::io;
use std::path::PathBuf;

use flight_fencing::Epoch;
use flight_key_lock::{LocalDirectory, LockFile};

use crate::epoch_file::{self, EpochFault, Stored};
use crate::error::{CampaignError, CampaignStep};

/// The file whose kernel lock is the term. Never removed: see the crate's page.
pub(crate) const LOCK_FILE: &str = "flight.lock";

/// The file with the last epoch.
pub(crate) const EPOCH_FILE: &str = "flight.epoch";

/// What both files hold: `flight.epoch`, then `flight.lock`.
pub(crate) fn read(directory: &LocalDirectory, lock: &LockFile) -> Result<(Stored, Stored), CampaignError> {
    let epoch_file = match directory.read(EPOCH_FILE) {
        Ok(bytes) => Stored::in_epoch_file(bytes.as_deref()),
        // Too large to be read at all: no epoch, whatever it is.
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Stored::Unreadable(EpochFault::TooLong),
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
/// of the same data would succeed and prove nothing. The next campaign writes a new file or a greater number.
pub(crate) fn write(directory: &LocalDirectory, lock: &LockFile, epoch: Epoch) -> Result<(), CampaignError> {
    // A holder that was frozen since it read the epochs, and whose lock file was replaced meanwhile, must not put its number over
    // the greater one of its successor.
    check(directory, lock)?;
    let text = epoch_file::text(epoch);
    // First, by invariant 2.
    directory
        .replace_durably(EPOCH_FILE, text.as_bytes())
        .map_err(|source| failed(directory, CampaignStep::WriteEpoch, EPOCH_FILE, source))?;
    lock.write_text(&text).map_err(|source| failed(directory, CampaignStep::WriteSecondCopy, LOCK_FILE, source))?;
    // Again, and not before the writing: who locks a replacement of the lock file after this look reads the epoch just
    // written, and takes a greater one. Who had locked a replacement earlier may have read the same old epoch as we did, and
    // chosen the same new one; then the replacement is there by now, and this look finds it.
    check(directory, lock)
}

/// That the lock is the one which any other process would try to take.
fn check(directory: &LocalDirectory, lock: &LockFile) -> Result<(), CampaignError> {
    let io = |path, source| CampaignError::Io { step: CampaignStep::CheckLock, path, source };
    let lock_path = || path(directory, LOCK_FILE);
    if lock.is_current().map_err(|source| io(lock_path(), source))? {
        return Ok(());
    }
    // Which of the two was replaced decides what the caller has to do.
    match directory.is_current().map_err(|source| io(directory.path().to_owned(), source))? {
        true => Err(CampaignError::LockReplaced { path: lock_path() }),
        false => Err(CampaignError::DirectoryReplaced { directory: directory.path().to_owned() }),
    }
}

pub(crate) fn path(directory: &LocalDirectory, name: &str) -> PathBuf {
    directory.path().join(name)
}

fn failed(directory: &LocalDirectory, step: CampaignStep, name: &str, source: io::Error) -> CampaignError {
    CampaignError::Io { step, path: path(directory, name), source }
}
