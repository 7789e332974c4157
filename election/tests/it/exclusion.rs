//! At most one leads at any time, and no epoch is used twice.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use flight_election::{Election, Leadership};

use crate::children::{LOG, TURNS};
use crate::process::Process;
use crate::{election, election_in, win};

#[test]
fn twenty_processes_that_campaign_at_once_lead_one_after_the_other() {
    const PROCESSES: usize = 20;
    let (folder, _) = election();
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| Process::start("takes turns", folder.path())).collect();
    for process in &processes {
        assert_eq!(process.hear(), "is ready");
    }
    processes.iter_mut().for_each(Process::go_on);
    processes.into_iter().for_each(Process::finish);

    let log = fs::read_to_string(folder.path().join(LOG)).expect("they wrote it");
    let notes: Vec<&str> = log.lines().collect();
    assert_eq!(notes.len(), 2 * PROCESSES * TURNS);
    let mut last = 0;
    for pair in notes.chunks(2) {
        let begun = pair[0].strip_prefix("begin ").unwrap_or_else(|| panic!("a term within another one: {log}"));
        assert_eq!(pair[1].strip_prefix("end "), Some(begun), "a term within another one: {log}");
        let epoch: u32 = begun.split(' ').next().and_then(|epoch| epoch.parse().ok()).expect("an epoch");
        assert!(epoch > last, "{epoch} after {last}: {log}");
        last = epoch;
    }
}

#[test]
fn two_elections_of_one_process_are_two_candidates() {
    let (folder, one) = election();
    let other = election_in(folder.path());
    let clone = one.clone();
    let leadership = win(&one);
    for candidate in [&one, &other, &clone] {
        assert!(candidate.try_campaign().expect("nothing is in the way").is_none());
    }
    drop(other);
    assert!(clone.try_campaign().expect("nothing is in the way").is_none());
    assert!(leadership.is_current().expect("it can be looked at"));
    leadership.resign().expect("the lock is ours");
    assert!(clone.try_campaign().expect("nothing is in the way").is_some());
}

#[test]
fn another_process_hears_that_somebody_leads() {
    let (folder, election) = election();
    let mut process = Process::start("leads", folder.path());
    assert_eq!(process.hear(), "campaigns");
    let epoch = process.hear_number();
    assert!(election.try_campaign().expect("nothing is in the way").is_none());
    process.go_on();
    process.finish();
    assert_eq!(win(&election).epoch().get(), epoch + 1);
}

#[test]
fn a_resigned_term_is_free_at_once_while_other_threads_start_processes() {
    // A child between fork and exec has the descriptor of the lock too: were the lock given back by closing alone, it would stay
    // for a moment.
    let (_folder, election) = election();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let _ = Command::new(if cfg!(windows) { "hostname" } else { "true" }).output();
                }
            });
        }
        let terms = (0..150).map(|_| election.try_campaign().map(|won| won.is_some()));
        let all_won: Result<Vec<bool>, _> = terms.collect();
        ended.store(true, Ordering::Relaxed);
        assert!(all_won.expect("nothing is in the way").into_iter().all(|won| won));
    });
}

#[cfg(unix)]
#[test]
fn the_lock_file_stays_the_same_file_for_ever() {
    use std::os::unix::fs::MetadataExt;

    let (folder, election) = election();
    let file = || fs::metadata(folder.path().join(crate::LOCK_FILE)).expect("it is there").ino();
    drop(win(&election));
    let first = file();
    win(&election).resign().expect("the lock is ours");
    drop(win(&election));
    assert_eq!(file(), first);
}

#[test]
fn elections_and_leaderships_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    crosses::<Election>();
    crosses::<Leadership>();
    let (_folder, election) = election();
    drop(is_send(election.campaign()));
    drop(is_send(election.campaign_for(crate::DEADLINE)));
}
