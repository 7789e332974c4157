//! Lock files, folders and directories that somebody removes, moves or replaces by hand.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use flight_key_lock::{KeyLock, KeyLocks, LocalDirectory, LockFile};
use tempfile::tempdir;

use super::{DEADLINE, EndOf, is_held, locks_at, take};

fn is_current(lock: &KeyLock) -> bool {
    lock.is_current().expect("a look at the path")
}

/// A waiter that had opened the removed file must not count as its heir, and a holder must learn that it is alone no more.
#[test]
fn of_all_who_hold_a_removed_file_only_the_last_is_current() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let file = home.path().join("execution-locks").join(KeyLocks::file_name(b"k"));
    let mut holders = vec![take(&locks, "k")];
    for _ in 0..20 {
        let (sender, taken) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (sender, locks) = (sender.clone(), &locks);
                scope
                    .spawn(move || sender.send(locks.acquire_blocking(b"k", None).expect("a wait").expect("no limit")));
            }
            for _ in 0..3 {
                fs::remove_file(&file).expect("the file of the one before");
                holders.push(taken.recv_timeout(DEADLINE).expect("the next one takes a file of its own"));
            }
        });
    }
    assert!(is_held(&locks, "k"));
    let current: Vec<usize> = (0..holders.len()).filter(|at| is_current(&holders[*at])).collect();
    assert_eq!(current, [holders.len() - 1]);
    drop(holders);
    assert!(!is_held(&locks, "k"));
}

/// The same as a race: holders come and go while the file is removed, and whenever the remover rests, at most one is current.
#[test]
fn two_holders_are_never_both_current() {
    let home = tempdir().expect("a directory");
    let file = home.path().join("execution-locks").join(KeyLocks::file_name(b"k"));
    // Those who have the lock at this moment. One slot for each thread.
    let slots: Vec<Mutex<Option<KeyLock>>> = (0..4).map(|_| Mutex::new(None)).collect();
    let (done, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = EndOf(&done);
        for slot in &slots {
            scope.spawn(|| {
                let locks = locks_at(home.path());
                while !done.load(Ordering::SeqCst) {
                    if let Some(lock) = locks.look(b"k").expect("a look") {
                        taken.fetch_add(1, Ordering::SeqCst);
                        *slot.lock().expect("no panic") = Some(lock);
                        // Held until the next turn, so that the remover finds it.
                        std::thread::yield_now();
                        drop(slot.lock().expect("no panic").take());
                    }
                }
            });
        }
        let mut removed = 0;
        while removed < 500 || taken.load(Ordering::SeqCst) < 500 {
            // tidy: leaves the others the slots for a moment; the loop goes by what they did
            std::thread::sleep(Duration::from_micros(200));
            removed += usize::from(fs::remove_file(&file).is_ok());
            // Nothing is removed while they are counted, so the path leads to one file, and that has one lock.
            let held: Vec<_> = slots.iter().map(|slot| slot.lock().expect("no panic")).collect();
            let current = held.iter().filter_map(|slot| slot.as_ref()).filter(|lock| is_current(lock)).count();
            assert!(current <= 1, "{current} are current");
        }
    });
}

#[test]
fn touching_linking_and_copying_the_file_are_no_difference() {
    let home = tempdir().expect("a directory");
    let lock = take(&locks_at(home.path()), "k");
    let folder = home.path().join("execution-locks");
    let file = folder.join(KeyLocks::file_name(b"k"));
    fs::hard_link(&file, folder.join("backup")).expect("a link");
    fs::copy(&file, folder.join("copy")).expect("a copy");
    fs::File::open(&file).expect("the file").set_modified(std::time::SystemTime::UNIX_EPOCH).expect("an old file");
    assert!(is_current(&lock));
    fs::rename(folder.join("copy"), &file).expect("a restored copy");
    assert!(!is_current(&lock), "the copy is another file");
}

#[test]
fn the_folder_removed_under_its_users_is_made_anew() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let stale = take(&locks, "k");
    fs::remove_dir_all(home.path().join("execution-locks")).expect("a removal");
    assert!(!is_current(&stale));

    let lock = take(&locks, "k");
    assert!(is_current(&lock) && !is_current(&stale));
    assert!(is_held(&locks_at(home.path()), "k"), "for others too");
    drop(stale);
    assert!(is_held(&locks, "k"), "the end of the stale lock frees nothing");
}

/// The old folder still is a folder, so that files can be made in it: which nobody else would find.
#[test]
fn no_lock_is_given_out_in_a_folder_that_was_moved_away() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let stale = take(&locks, "k");
    let folder = home.path().join("execution-locks");
    fs::rename(&folder, home.path().join("elsewhere")).expect("a move");
    assert!(!is_current(&stale));
    let newcomer = locks_at(home.path());
    for key in ["k", "another"] {
        let lock = take(&newcomer, key);
        assert!(is_current(&lock));
        assert!(locks.look(key.as_bytes()).expect("a look").is_none(), "{key} is held in the new folder");
        drop(lock);
        assert!(is_current(&take(&locks, key)), "{key} is free in the new folder");
    }
}

#[test]
fn a_directory_that_was_moved_is_not_current_and_gives_no_locks() {
    let home = tempdir().expect("a directory");
    let path = home.path().join("locks");
    let directory = LocalDirectory::open(&path).expect("a directory");
    let locks = KeyLocks::new(&directory).expect("locks");
    let lock = take(&locks, "k");
    let file = LockFile::try_lock(&directory, "term").expect("a try").expect("nobody holds it");
    assert!(directory.is_current().expect("a look"));
    assert!(file.is_current().expect("a look"));

    fs::rename(&path, home.path().join("moved")).expect("a move");
    assert!(!directory.is_current().expect("a look"));
    assert!(!is_current(&lock));
    assert!(!file.is_current().expect("a look"));
    let refused = LockFile::try_lock(&directory, "other").expect_err("nobody would find it").to_string();
    assert!(refused.contains(&*path.to_string_lossy()), "{refused}");

    // Somebody else begins anew at the path: the two may not both believe to be alone there.
    let anew = LocalDirectory::open(&path).expect("a new directory");
    assert_ne!(anew.identity(), directory.identity());
    assert!(!directory.is_current().expect("a look") && anew.is_current().expect("a look"));
    for key in ["k", "another"] {
        match locks.look(key.as_bytes()) {
            Ok(Some(lock)) => assert!(is_current(&lock) && is_held(&KeyLocks::new(&anew).expect("locks"), key)),
            Ok(None) => panic!("nobody holds {key} where others look"),
            Err(error) => assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}"),
        }
    }
}

#[cfg(unix)]
#[test]
fn what_is_not_a_file_is_refused_and_not_followed() {
    let home = tempdir().expect("a directory");
    let directory = LocalDirectory::open(home.path().join("locks")).expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("folder")).expect("a folder");
    fs::write(home.path().join("target"), "").expect("a file");
    std::os::unix::fs::symlink(home.path().join("target"), at("link")).expect("a link");
    std::os::unix::fs::symlink(home.path().join("nothing"), at("dangling")).expect("a link");
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo").success());
    for name in ["folder", "link", "dangling", "pipe"] {
        let refused = LockFile::try_lock(&directory, name).expect_err("it is no file").to_string();
        assert!(refused.contains(&*at(name).to_string_lossy()) && refused.contains("not a plain file"), "{refused}");
    }
    assert!(!home.path().join("nothing").exists(), "nothing was made through a link");
}
