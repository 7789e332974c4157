//! Files that do not hold what they should.

use std::fs;
use std::path::Path;

use flight_election::{CampaignError, CampaignStep, Election};
use flight_fencing::Epoch;

use crate::{EPOCH_FILE, LOCK_FILE, assert_both_hold, election, election_in, lock_is_free, stored, win};

/// What a crash, a full disk, an editor or another program may leave in a file.
const BAD: [&[u8]; 12] = [
    b"",
    b"\0\0\0\0\0\0\0\0",
    b"12",
    b"12\n12",
    b"12\n12\n",
    b"1234567890123456789012345678901234567890\n",
    b"-1\n",
    b" 12\n",
    b"12\r\n",
    b"4294967296\n",
    b"\x8f\x03\xfe\xd1\x00\xc4\x7a\x19\x55\n",
    b"{\"epoch\":12}\n",
];

/// A directory whose last epoch is 700.
fn election_at_700() -> (tempfile::TempDir, Election) {
    let (folder, election) = election();
    write_both(folder.path(), b"700\n", b"700\n");
    (folder, election)
}

fn write_both(folder: &Path, epoch_file: &[u8], lock_file: &[u8]) {
    fs::write(folder.join(EPOCH_FILE), epoch_file).expect("it can be written");
    fs::write(folder.join(LOCK_FILE), lock_file).expect("it can be written");
}

fn contents(folder: &Path) -> [Option<Vec<u8>>; 2] {
    [EPOCH_FILE, LOCK_FILE].map(|name| fs::read(folder.join(name)).ok())
}

/// Campaigns, and expects a refusal that leaves the directory as it is and the lock free.
#[track_caller]
fn refused(folder: &Path, election: &Election) -> CampaignError {
    let before = contents(folder);
    let error = election.try_campaign().expect_err("it must be refused");
    assert!(!error.is_transient(), "{error}");
    assert_eq!(contents(folder), before, "{error}");
    assert!(lock_is_free(election), "{error}");
    error
}

#[test]
fn a_damaged_epoch_file_is_recovered_from_the_second_copy() {
    for bad in BAD {
        let (folder, election) = election_at_700();
        fs::write(folder.path().join(EPOCH_FILE), bad).expect("it can be written");
        assert_eq!(win(&election).epoch(), Epoch::new(701), "{bad:?}");
        assert_eq!(stored(folder.path(), EPOCH_FILE), 701, "mended");
    }
}

#[test]
fn an_epoch_file_of_any_size_is_recovered_too() {
    let (folder, election) = election_at_700();
    let file = fs::File::create(folder.path().join(EPOCH_FILE)).expect("it can be written");
    file.set_len(1 << 24).expect("it can have holes");
    assert_eq!(win(&election).epoch(), Epoch::new(701));
}

#[test]
fn a_damaged_second_copy_is_recovered_from_the_epoch_file() {
    for bad in BAD {
        let (folder, election) = election_at_700();
        fs::write(folder.path().join(LOCK_FILE), bad).expect("it can be written");
        assert_eq!(win(&election).epoch(), Epoch::new(701), "{bad:?}");
        assert_eq!(stored(folder.path(), LOCK_FILE), 701, "mended");
    }
}

#[test]
fn a_missing_copy_is_recovered_from_the_other_although_keys_are_locked() {
    for missing in [EPOCH_FILE, LOCK_FILE] {
        let (folder, election) = election_at_700();
        let keys = folder.path().join("execution-locks");
        fs::create_dir_all(&keys).expect("it can be made");
        fs::write(keys.join("0".repeat(64)), "").expect("it can be made");
        fs::remove_file(folder.path().join(missing)).expect("it is there");
        assert_eq!(win(&election).epoch(), Epoch::new(701), "without {missing}");
        assert_eq!(stored(folder.path(), missing), 701, "mended");
    }
}

#[test]
fn an_old_copy_from_a_backup_does_not_count() {
    for old in [EPOCH_FILE, LOCK_FILE] {
        let (folder, election) = election_at_700();
        fs::write(folder.path().join(old), "31\n").expect("it can be written");
        assert_eq!(win(&election).epoch(), Epoch::new(701), "with an old {old}");
    }
}

#[test]
fn without_a_readable_copy_it_refuses_and_says_how_to_go_on() {
    for bad in BAD {
        for other in BAD {
            let (folder, election) = election();
            write_both(folder.path(), bad, other);
            let error = refused(folder.path(), &election);
            assert!(matches!(error, CampaignError::EpochUnreadable { .. }), "{error:?}");
            assert_eq!(error.step(), CampaignStep::ChooseEpoch);
            assert_eq!(error.path(), folder.path().join(EPOCH_FILE));
            // Not even with an epoch that one client has seen: others may have seen more.
            refused(folder.path(), &election.with_seen(Epoch::new(900)));
        }
    }
    // The epoch file is gone, and the second copy damaged.
    for bad in BAD.into_iter().filter(|bad| !bad.is_empty()) {
        let (folder, election) = election();
        fs::write(folder.path().join(LOCK_FILE), bad).expect("it can be written");
        refused(folder.path(), &election);
    }
}

#[test]
fn the_repair_that_the_message_asks_for_works() {
    let (folder, election) = election();
    write_both(folder.path(), b"\0\0\0\0", b"70");
    let message = refused(folder.path(), &election).to_string();
    for part in [EPOCH_FILE, LOCK_FILE, "write a number above every epoch", "date +%s"] {
        assert!(message.contains(part), "{message}");
    }
    fs::write(folder.path().join(EPOCH_FILE), "1764553021\n").expect("it can be written");
    assert_eq!(win(&election).epoch(), Epoch::new(1_764_553_022));
}

#[test]
fn the_last_epoch_is_won_and_never_followed() {
    let (folder, election) = election();
    write_both(folder.path(), b"4294967294\n", b"4294967294\n");
    assert_eq!(win(&election).epoch(), Epoch::MAX);
    for (epoch_file, lock_file, named) in [
        ("4294967295\n", "4294967295\n", EPOCH_FILE),
        ("4294967295\n", "7\n", EPOCH_FILE),
        ("7\n", "4294967295\n", LOCK_FILE),
    ] {
        write_both(folder.path(), epoch_file.as_bytes(), lock_file.as_bytes());
        let error = refused(folder.path(), &election);
        assert!(matches!(error, CampaignError::EpochsSpent { .. }), "{error:?}");
        assert_eq!(error.path(), folder.path().join(named));
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn a_term_is_above_what_was_seen_whatever_the_files_say() {
    let (folder, election) = election_at_700();
    let mut election = election.with_seen(Epoch::new(5000));
    election.see(Epoch::new(40));
    assert_eq!(win(&election).epoch(), Epoch::new(5001));
    assert_both_hold(folder.path(), 5001);
    election.see(Epoch::MAX);
    assert!(matches!(refused(folder.path(), &election), CampaignError::SeenSpent { .. }));
    // What one client claims is not kept against the others.
    assert_eq!(win(&election_in(folder.path())).epoch(), Epoch::new(5002));
}

#[test]
fn the_epoch_is_in_both_files_before_the_term_begins() {
    let (folder, election) = election();
    for _ in 0..3 {
        let leadership = win(&election);
        assert_both_hold(folder.path(), leadership.epoch().get());
    }
}
