//! An epoch that a client has seen, and this term is not above.

use std::fs;

use flight_election::CampaignError;
use flight_fencing::Epoch;

use crate::{EPOCH_FILE, LOCK_FILE, assert_both_hold, election, stored, win};

#[test]
fn a_term_passes_what_was_seen_and_keeps_it() {
    let (folder, election) = election();
    let mut leadership = win(&election);
    let seen = Epoch::new(leadership.epoch().get() + 50);
    let raised = leadership.raise(seen).expect("nothing is in the way");
    assert_eq!(raised.get(), seen.get() + 1);
    assert_eq!(leadership.epoch(), raised);
    assert_both_hold(folder.path(), raised.get());
    // Our own epoch, seen by a client of another term, is no less a reason.
    assert_eq!(leadership.raise(raised).expect("nothing is in the way").get(), raised.get() + 1);
    leadership.resign().expect("the lock is ours");
    assert_eq!(win(&election).epoch().get(), raised.get() + 2);
}

#[test]
fn a_term_that_is_above_already_writes_nothing() {
    let (folder, election) = election();
    let mut leadership = win(&election);
    let epoch = leadership.epoch();
    fs::remove_file(folder.path().join(EPOCH_FILE)).expect("it is there");
    assert_eq!(leadership.raise(Epoch::new(epoch.get() - 1)).expect("nothing to do"), epoch);
    assert_eq!(leadership.epoch(), epoch);
    assert!(!folder.path().join(EPOCH_FILE).exists());
}

#[test]
fn there_is_nothing_above_the_greatest_epoch() {
    let (folder, election) = election();
    let mut leadership = win(&election);
    let epoch = leadership.epoch();
    let error = leadership.raise(Epoch::MAX).expect_err("nothing is above it");
    assert!(matches!(error, CampaignError::SeenSpent { .. }), "{error:?}");
    assert_eq!(leadership.epoch(), epoch);
    assert_eq!(stored(folder.path(), EPOCH_FILE), epoch.get());
    // The term goes on for those who did not claim that.
    leadership.raise(Epoch::new(epoch.get() + 1)).expect("nothing is in the way");
}

#[test]
fn a_raise_that_failed_is_not_tried_again_with_the_same_number() {
    let (folder, election) = election();
    let mut leadership = win(&election);
    let epoch = leadership.epoch();
    // A directory under the name of the epoch file: it cannot be replaced.
    let epoch_file = folder.path().join(EPOCH_FILE);
    fs::remove_file(&epoch_file).expect("it is there");
    fs::create_dir(&epoch_file).expect("it is gone");
    let error = leadership.raise(epoch).expect_err("the epoch file is in the way");
    assert_eq!(error.path(), epoch_file);
    assert_eq!(leadership.epoch(), epoch, "nothing was raised");
    // The copy that is written in place is written second: a crash may tear it, and the first one must be good by then.
    if cfg!(unix) {
        assert_eq!(stored(folder.path(), LOCK_FILE), epoch.get());
    }
    fs::remove_dir(&epoch_file).expect("it is empty");
    assert_eq!(leadership.raise(epoch).expect("nothing is in the way").get(), epoch.get() + 2);
}

#[test]
fn whoever_may_lead_no_more_writes_nothing() {
    let (folder, election) = election();
    let mut old = win(&election);
    fs::remove_file(folder.path().join(LOCK_FILE)).expect("it is there");
    let new = win(&election);
    let error = old.raise(Epoch::new(new.epoch().get() + 50)).expect_err("another leads");
    assert!(matches!(error, CampaignError::LockReplaced { .. }), "{error:?}");
    assert_both_hold(folder.path(), new.epoch().get());
}
