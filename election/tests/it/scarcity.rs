//! Full disks, read-only disks and processes without descriptors.
//!
//! Each test runs a child, for which the thing is scarce and for nobody else.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flight_election::{CampaignError, CampaignStep, Election};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::process::Process;
use crate::{EPOCH_FILE, LOCK_FILE, election, election_in, lock_is_free, stored, win};

/// The time within which a failed campaign has been reported and released.
const SOON: Duration = Duration::from_secs(1);

fn in_small_file_system(options: &str, role: &str) {
    let (folder, _) = election();
    let mount = format!("mount -t tmpfs -o {options} tmpfs \"$FOLDER\"");
    if let Some(process) = Process::start_in_mount_namespace(&mount, role, folder.path()) {
        process.finish();
    }
}

/// Campaigns, and expects a failure that keeps the last epoch and releases the lock.
#[track_caller]
fn fails(election: &Election, last: u32) -> CampaignError {
    let folder = election.directory().path();
    let begun = Instant::now();
    let error = election.try_campaign().expect_err("it cannot be won");
    assert!(begun.elapsed() < SOON, "{error}");
    assert!(error.to_string().contains(&*error.path().to_string_lossy()), "{error}");
    assert_eq!(stored(folder, EPOCH_FILE), last, "{error}");
    error
}

#[test]
fn a_full_disk_keeps_the_epoch_and_frees_the_lock_and_its_end_is_the_end_of_it() {
    in_small_file_system("size=32k", "fills the disk");
}

pub(crate) fn fills_the_disk(folder: &Path) {
    let election = election_in(folder);
    let last = win(&election).epoch().get();
    let filler = folder.join("filler");
    let mut file = File::create(&filler).expect("there is room");
    while file.write_all(&[b'x'; 4096]).is_ok() {}
    drop(file);
    for _ in 0..10 {
        let error = fails(&election, last);
        assert_eq!(error.step(), CampaignStep::WriteEpoch, "{error}");
        let CampaignError::Io { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.kind(), ErrorKind::StorageFull, "{error}");
        assert!(error.is_transient(), "{error}");
        assert!(lock_is_free(&election), "{error}");
    }
    fs::remove_file(&filler).expect("it is there");
    assert_eq!(win(&election).epoch().get(), last + 1);
}

#[test]
fn a_disk_without_room_for_another_file_does_the_same() {
    in_small_file_system("size=64k,nr_inodes=8", "uses up the files");
}

pub(crate) fn uses_up_the_files(folder: &Path) {
    let election = election_in(folder);
    let last = win(&election).epoch().get();
    let names = || (0..8).map(|number| folder.join(format!("filler-{number}")));
    assert!(names().map(File::create).any(|file| file.is_err()), "the file system was to be small");
    let error = fails(&election, last);
    assert!(error.is_transient(), "{error}");
    assert!(lock_is_free(&election), "{error}");
    for name in names() {
        let _ = fs::remove_file(name);
    }
    assert_eq!(win(&election).epoch().get(), last + 1);
}

#[test]
fn a_disk_that_became_read_only_elects_nobody() {
    in_small_file_system("size=64k", "becomes read-only");
}

pub(crate) fn becomes_read_only(folder: &Path) {
    let remount = |how: &str| {
        let status = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(folder).status();
        assert!(status.expect("mount can be run").success());
    };
    let election = election_in(folder);
    // Nothing there yet: not even the lock file can be made.
    remount("ro");
    let error = election.try_campaign().expect_err("nothing can be written");
    assert_eq!(error.step(), CampaignStep::Lock, "{error}");
    assert!(!error.is_transient(), "{error}");
    remount("rw");

    let last = win(&election).epoch().get();
    remount("ro");
    let error = fails(&election, last);
    assert!(!error.is_transient(), "{error}");
    remount("rw");
    assert!(lock_is_free(&election));
    assert_eq!(win(&election).epoch().get(), last + 1);
}

#[test]
fn a_process_without_descriptors_neither_wins_nor_keeps_the_lock() {
    let (folder, _) = election();
    Process::start("has no descriptors", folder.path()).finish();
}

pub(crate) fn has_no_descriptors(folder: &Path) {
    let election = election_in(folder);
    let mut last = win(&election).epoch().get();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).expect("a lower limit is allowed");
    let mut failed_at = Vec::new();
    // With each number of descriptors left, up to the first that is enough: so that every step runs out of them once.
    for left in 0.. {
        let mut taken = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        taken.truncate(taken.len() - left);
        let campaign = election.try_campaign();
        drop(taken);
        match campaign {
            Ok(won) => {
                let leadership = won.expect("nobody leads");
                assert!(leadership.epoch().get() > last);
                break;
            }
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                assert!(error.path().starts_with(folder), "{error}");
                assert!(lock_is_free(&election), "with {left} descriptors: {error}");
                failed_at.push(error.step());
                assert!(stored(folder, EPOCH_FILE) >= last, "{error}");
                last = stored(folder, EPOCH_FILE);
            }
        }
    }
    assert!(failed_at.contains(&CampaignStep::Lock), "{failed_at:?}");
    assert!(failed_at.iter().any(|step| *step > CampaignStep::Lock), "in the middle of winning: {failed_at:?}");
    assert_eq!(stored(folder, LOCK_FILE), stored(folder, EPOCH_FILE));
}
