//! Lock files and directories that somebody removed, replaced or touched.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::hint;
use std::path::Path;
use std::sync::{Barrier, Mutex};
use std::thread;

use flight_election::{CampaignError, Election};
use flight_key_lock::LocalDirectory;

use crate::{LOCK_FILE, election, election_in, lock_is_free, win};

#[test]
fn a_lock_file_that_was_removed_ends_the_term_and_the_next_one_is_greater() {
    let (folder, election) = election();
    let old = win(&election);
    assert!(old.is_current().expect("it can be looked at"));
    fs::remove_file(folder.path().join(LOCK_FILE)).expect("it is there");
    assert!(!old.is_current().expect("it can be looked at"));
    let new = win(&election);
    assert!(new.epoch() > old.epoch());
    assert!(!old.is_current().expect("it can be looked at"));
    assert!(new.is_current().expect("it can be looked at"));
    // The old one's end is not the new one's.
    old.resign().expect("its lock is still its own");
    assert!(new.is_current().expect("it can be looked at"));
    assert!(election.try_campaign().expect("nothing is in the way").is_none());
}

#[test]
fn a_lock_file_that_was_replaced_ends_the_term() {
    let (folder, election) = election();
    let old = win(&election);
    let copy = folder.path().join("copy");
    fs::copy(folder.path().join(LOCK_FILE), &copy).expect("it can be read");
    fs::rename(&copy, folder.path().join(LOCK_FILE)).expect("it can be replaced");
    assert!(!old.is_current().expect("it can be looked at"));
    assert!(win(&election).epoch() > old.epoch());
}

#[test]
fn a_lock_file_that_is_removed_in_the_middle_of_a_campaign_makes_no_epoch_twice() {
    const ROUNDS: u32 = 150;
    let (folder, _) = election();
    let round = Barrier::new(3);
    let epochs = Mutex::new(Vec::new());
    let campaign = |election: &Election| match election.try_campaign() {
        Ok(won) => won.map(|leadership| epochs.lock().expect("nobody panics").push(leadership.epoch())).is_some(),
        Err(CampaignError::LockReplaced { .. }) => true,
        Err(error) => panic!("{error}"),
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let election = election_in(folder.path());
            for _ in 0..ROUNDS {
                round.wait();
                campaign(&election);
                round.wait();
            }
        });
        // This one tries until it has won or lost: it is there at once when the lock file is gone.
        scope.spawn(|| {
            let election = election_in(folder.path());
            for _ in 0..ROUNDS {
                round.wait();
                while !campaign(&election) {
                    hint::spin_loop();
                }
                round.wait();
            }
        });
        let random = RandomState::new();
        for number in 0..ROUNDS {
            round.wait();
            // At any point of their campaigns.
            for _ in 0..random.hash_one(number) % 20_000 {
                hint::spin_loop();
            }
            let _ = fs::remove_file(folder.path().join(LOCK_FILE));
            round.wait();
        }
    });
    let epochs = epochs.into_inner().expect("nobody panics");
    let distinct: HashSet<_> = epochs.iter().collect();
    assert_eq!(distinct.len(), epochs.len(), "an epoch was won twice: {epochs:?}");
}

#[cfg(unix)]
#[test]
fn touching_chmod_backups_and_hard_links_are_no_difference() {
    use std::os::unix::fs::PermissionsExt;

    let (folder, election) = election();
    let leadership = win(&election);
    let lock_file = folder.path().join(LOCK_FILE);
    let file = fs::File::options().append(true).open(&lock_file).expect("it is ours");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("it is ours");
    fs::set_permissions(&lock_file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    fs::copy(&lock_file, folder.path().join("flight.lock.bak")).expect("it can be read");
    fs::hard_link(&lock_file, folder.path().join("another name")).expect("it is one file system");
    assert!(leadership.is_current().expect("it can be looked at"));
    assert!(election.try_campaign().expect("nothing is in the way").is_none());
}

/// A leader in a directory, and then another directory under its path.
fn replace_directory(remove: fn(&Path)) {
    let parent = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = parent.path().join("flights");
    let election = election_in(&folder);
    let old = win(&election);

    remove(&folder);
    assert!(!old.is_current().expect("it can be looked at"));
    let error = election.try_campaign().expect_err("there is nothing to lead");
    assert!(matches!(error, CampaignError::DirectoryReplaced { .. }), "{error:?}");
    assert_eq!(error.path(), folder);

    let anew = election_in(&folder);
    assert!(!old.is_current().expect("it can be looked at"));
    let error = election.try_campaign().expect_err("nobody would be led");
    assert!(matches!(error, CampaignError::DirectoryReplaced { .. }), "{error:?}");
    assert!(!error.is_transient());

    // A directory that begins again is not locked out by those who saw the old one.
    let new = win(&anew.clone().with_seen(old.epoch()));
    assert!(new.epoch() > old.epoch());
    assert!(new.is_current().expect("it can be looked at"));
    drop(old);
    assert!(!lock_is_free(&anew));
}

#[test]
fn a_directory_that_was_removed_is_told_and_the_new_one_elects() {
    replace_directory(|folder| fs::remove_dir_all(folder).expect("it is ours"));
}

#[test]
fn a_directory_that_was_moved_away_is_told_and_the_new_one_elects() {
    replace_directory(|folder| fs::rename(folder, folder.with_extension("old")).expect("it is ours"));
}

#[test]
fn a_wiped_directory_begins_at_the_time_and_not_at_one() {
    let (folder, election) = election();
    let epoch = win(&election).epoch();
    assert!(epoch.get() > 1_700_000_000, "{epoch}");
    assert_eq!(election.directory().path(), folder.path());
    assert_eq!(win(&election).directory().path(), LocalDirectory::open(folder.path()).expect("it is there").path());
}
