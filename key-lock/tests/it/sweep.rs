//! The removal of idle keys' files, beside those who use them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::tempdir;

use super::actor::{Actor, role, say};
use super::{EndOf, append, assert_no_overlap, home_in_memory, is_held, lock_files, locks_at, names, take};

#[test]
fn a_sweep_removes_the_files_of_idle_keys_alone() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let held = take(&locks, "held");
    for key in 0..100 {
        drop(take(&locks, format!("idle {key}")));
    }
    let foreign = home.path().join("execution-locks/README");
    fs::write(&foreign, "not ours").expect("a file");

    let sweep = locks.sweep().expect("a sweep");

    assert_eq!((sweep.seen, sweep.removed), (101, 100));
    assert_eq!(lock_files(home.path()).len(), 2);
    assert!(foreign.exists(), "a stranger's file is a stranger's");
    assert!(held.is_current().expect("a look") && is_held(&locks, "held"));
}

/// A round of sweeping begins after 4096 new files, and each of the next ones pays for four.
#[test]
fn the_folder_stays_bounded_without_being_asked() {
    let home = home_in_memory();
    let locks = locks_at(home.path());
    let mut most = 0;
    for key in 0_u32..6000 {
        drop(locks.look(&key.to_le_bytes()).expect("a look").expect("nobody holds it"));
        if key % 500 == 0 {
            most = most.max(lock_files(home.path()).len());
        }
    }
    let left = lock_files(home.path()).len();
    assert!(most <= 4096 && left <= 2500, "{most} files of idle keys at most, {left} at the end");
}

const ROUNDS: usize = 300;

fn work(directory: &Path, who: &str) {
    let locks = locks_at(directory);
    for round in 0..ROUNDS {
        let lock = locks.acquire_blocking(b"k", None).expect("a wait").expect("no limit");
        append(&directory.join("log"), &format!("start {who} {round}"));
        append(&directory.join("log"), &format!("end {who} {round}"));
        lock.unlock().expect("an unlock");
        // tidy: a moment in which the key is idle, for the sweeper to find
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn a_sweep_beside_workers_never_lets_two_in() {
    role("work", |directory| {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| work(directory, &format!("{} b", std::process::id())));
            work(directory, &format!("{} a", std::process::id()));
            other.join().expect("no panic");
        });
        say("worked");
    });
    let home = tempdir().expect("a directory");
    let test = "sweep::a_sweep_beside_workers_never_lets_two_in";
    let mut workers: Vec<_> = (0..2).map(|_| Actor::start(test, "work", home.path())).collect();
    let done = AtomicBool::new(false);
    let removed = std::thread::scope(|scope| {
        let end = EndOf(&done);
        let sweeper = scope.spawn(|| {
            let locks = locks_at(home.path());
            let mut removed = 0;
            while !done.load(Ordering::SeqCst) {
                removed += locks.sweep().expect("a sweep").removed;
            }
            removed
        });
        work(home.path(), "test");
        for worker in &mut workers {
            worker.hear("worked");
        }
        drop(end);
        sweeper.join().expect("no panic")
    });
    for worker in workers {
        worker.succeeds();
    }
    assert_eq!(assert_no_overlap(&home.path().join("log")), 5 * ROUNDS);
    assert!(removed > 10, "the sweeper found the file idle {removed} times: too few to prove anything");
    assert_eq!(names(home.path()), ["execution-locks", "log"]);
}

/// A sweeper that removed a file which it no longer holds would take it away from one who has just locked it.
#[test]
fn a_held_lock_is_never_swept() {
    let home = home_in_memory();
    let (done, swept) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = EndOf(&done);
        scope.spawn(|| {
            let locks = locks_at(home.path());
            while !done.load(Ordering::SeqCst) {
                swept.fetch_add(locks.sweep().expect("a sweep").removed, Ordering::SeqCst);
            }
        });
        let locks = locks_at(home.path());
        let mut held = 0;
        while held < 200 || swept.load(Ordering::SeqCst) < 200 {
            if let Some(lock) = locks.look(b"k").expect("a look") {
                held += 1;
                std::thread::yield_now();
                assert!(lock.is_current().expect("a look at the path"), "removed while it was held");
            }
        }
    });
}
