//! Processes that are killed, in their term and in the middle of a campaign.

use std::hash::{BuildHasher, RandomState};

use crate::process::Process;
use crate::{EPOCH_FILE, assert_both_hold, election, stored, win};

#[test]
fn epochs_strictly_grow_over_200_leaders_that_are_killed() {
    let (folder, _) = election();
    let start = || {
        let process = Process::start("leads", folder.path());
        assert_eq!(process.hear(), "campaigns");
        process
    };
    let mut leader = start();
    let mut last = leader.hear_number();
    for _ in 0..200 {
        // It waits already when the leader dies.
        let successor = start();
        leader.kill();
        let epoch = successor.hear_number();
        assert!(epoch > last, "{epoch} after {last}");
        assert_both_hold(folder.path(), epoch);
        (leader, last) = (successor, epoch);
    }
}

#[test]
fn whoever_reads_the_epoch_sees_an_old_or_a_new_one_wherever_a_campaign_is_killed() {
    let (folder, election) = election();
    let random = RandomState::new();
    let mut last = 0;
    for round in 0..40 {
        let process = Process::start("campaigns without end", folder.path());
        let first = process.hear_number();
        assert!(first > last, "{first} after {last}");
        last = first;
        // Dies after a number of looks that differs each time, wherever its campaign is then.
        for _ in 0..random.hash_one(round) % 300 {
            let epoch = stored(folder.path(), EPOCH_FILE);
            assert!(epoch >= last, "{epoch} after {last}");
            last = epoch;
        }
        process.kill();
        let epoch = stored(folder.path(), EPOCH_FILE);
        assert!(epoch >= last, "{epoch} after {last}");
        let leadership = win(&election);
        assert!(leadership.epoch().get() > epoch, "{} after {epoch}", leadership.epoch());
        last = leadership.epoch().get();
    }
}
