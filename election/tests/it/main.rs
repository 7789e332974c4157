//! The promises of `flight-election`, as a user meets them.

mod children;
mod crashes;
mod damage;
mod exclusion;
mod process;
mod raising;
mod replaced;
#[cfg(target_os = "linux")]
mod scarcity;
#[cfg(unix)]
mod unix;
mod waiting;

use std::fs;
use std::path::Path;
use std::time::Duration;

use flight_election::{Election, Leadership};
use flight_key_lock::{LocalDirectory, LockFile};
use tempfile::TempDir;

/// Long enough for any machine; a test that reaches it fails.
const DEADLINE: Duration = Duration::from_secs(30);

const EPOCH_FILE: &str = "flight.epoch";
const LOCK_FILE: &str = "flight.lock";

/// A new directory, and the election in it.
fn election() -> (TempDir, Election) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let election = election_in(folder.path());
    (folder, election)
}

fn election_in(folder: &Path) -> Election {
    Election::new(LocalDirectory::open(folder).expect("it is local, and ours"))
}

/// Wins at once, or fails the test.
#[track_caller]
fn win(election: &Election) -> Leadership {
    election.try_campaign().expect("nothing is in the way").expect("nobody leads")
}

/// The number in one of the two files, which must be whole.
#[track_caller]
fn stored(folder: &Path, name: &str) -> u32 {
    let text = fs::read_to_string(folder.join(name)).expect("it is there, and text");
    let digits = text.strip_suffix('\n').unwrap_or_else(|| panic!("{name} was cut short: {text:?}"));
    digits.parse().unwrap_or_else(|error| panic!("{name} holds {text:?}: {error}"))
}

/// Both files hold this epoch.
#[track_caller]
fn assert_both_hold(folder: &Path, epoch: u32) {
    assert_eq!(stored(folder, EPOCH_FILE), epoch, "in {EPOCH_FILE}");
    // Windows lets nobody but the holder read what is locked.
    if cfg!(unix) {
        assert_eq!(stored(folder, LOCK_FILE), epoch, "in {LOCK_FILE}");
    }
}

/// Whether nobody holds the lock, without a campaign.
#[track_caller]
fn lock_is_free(election: &Election) -> bool {
    LockFile::try_lock(election.directory(), LOCK_FILE).expect("it can be locked").is_some()
}
