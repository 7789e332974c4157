//! Opening a directory, and its small files.

use std::fs;

use flight_key_lock::{KeyLocks, LocalDirectory, LockFile};
use tempfile::tempdir;

use super::actor::{Actor, heed, role, say};
use super::{is_held, locks_at, names, take};

#[test]
fn missing_parents_are_made() {
    let home = tempdir().expect("a directory");
    let path = home.path().join("a/b/c");
    let directory = LocalDirectory::open(&path).expect("a directory");
    assert_eq!(directory.path(), path);
    assert!(directory.is_current().expect("a look"));
    assert!(names(&path).is_empty(), "the file that tried the locks is gone");
    assert_eq!(LocalDirectory::open(&path).expect("the same").identity(), directory.identity());
}

#[test]
fn a_file_in_its_place_is_refused_by_name() {
    let home = tempdir().expect("a directory");
    let path = home.path().join("file");
    fs::write(&path, "").expect("a file");
    for path in [path.clone(), path.join("below")] {
        let refused = LocalDirectory::open(&path).expect_err("it is a file").to_string();
        assert!(refused.contains(&*path.to_string_lossy()), "{refused}");
    }
}

/// Those who start together must neither trip over each other's try of the locks nor take it for a lock that is held.
#[test]
fn fifty_processes_that_start_together_all_open_it() {
    role("open", |directory| {
        say("ready");
        heed();
        let path = directory.join("new/locks");
        let locks = locks_at(&path);
        drop(take(&locks, format!("{}", std::process::id())));
        say("opened");
    });
    let home = tempdir().expect("a directory");
    let test = "directory::fifty_processes_that_start_together_all_open_it";
    let mut actors: Vec<_> = (0..50).map(|_| Actor::start(test, "open", home.path())).collect();
    for actor in &mut actors {
        actor.hear("ready");
    }
    for actor in &mut actors {
        actor.nod();
    }
    for actor in &mut actors {
        actor.hear("opened");
    }
    for actor in actors {
        actor.succeeds();
    }
    assert_eq!(names(&home.path().join("new/locks")), ["execution-locks"], "no file of the tries stays");
}

#[test]
fn a_relative_path_outlives_a_change_of_the_working_directory() {
    role("move", |directory| {
        std::env::set_current_dir(directory).expect("a directory");
        let locks = locks_at("relative");
        let lock = take(&locks, "k");
        std::env::set_current_dir("/").expect("a directory");
        assert!(lock.is_current().expect("a look"));
        drop(take(&locks, "another"));
        say("moved");
        heed();
    });
    let home = tempdir().expect("a directory");
    let test = "directory::a_relative_path_outlives_a_change_of_the_working_directory";
    let mut actor = Actor::start(test, "move", home.path());
    actor.hear("moved");
    assert!(is_held(&locks_at(home.path().join("relative")), "k"));
}

#[test]
fn a_file_is_replaced_wholly_and_nothing_else_stays() {
    let home = tempdir().expect("a directory");
    let directory = LocalDirectory::open(home.path()).expect("a directory");
    assert_eq!(directory.read("note").expect("a read"), None);
    assert!(!directory.remove("note").expect("a removal"));
    for text in ["a long text", "short", ""] {
        directory.replace_durably("note", text.as_bytes()).expect("a replacement");
        assert_eq!(directory.read("note").expect("a read").as_deref(), Some(text.as_bytes()));
    }
    assert_eq!(names(home.path()), ["note"]);
    assert!(directory.remove("note").expect("a removal"));
    assert!(names(home.path()).is_empty());
}

#[test]
fn the_text_of_a_lock_file_is_overwritten_wholly() {
    let home = tempdir().expect("a directory");
    let directory = LocalDirectory::open(home.path()).expect("a directory");
    let lock = LockFile::try_lock(&directory, "term").expect("a try").expect("nobody holds it");
    assert_eq!(lock.read_text().expect("a read"), b"");
    for text in ["a long text", "short"] {
        lock.write_text(text).expect("a write");
        assert_eq!(lock.read_text().expect("a read"), text.as_bytes());
    }
    assert!(lock.is_current().expect("a look"), "it stays the same file");
    lock.unlock().expect("an unlock");
    let again = LockFile::try_lock(&directory, "term").expect("a try").expect("nobody holds it");
    assert_eq!(again.read_text().expect("a read"), b"short");
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let home = tempdir().expect("a directory");
    let directory = LocalDirectory::open(home.path().join("locks")).expect("a directory");
    for name in ["", ".", "..", "../outside", "/tmp", "a/b"] {
        assert!(LockFile::try_lock(&directory, name).is_err(), "{name:?}");
        assert!(directory.replace_durably(name, b"x").is_err(), "{name:?}");
        assert!(directory.read(name).is_err(), "{name:?}");
        assert!(directory.remove(name).is_err(), "{name:?}");
    }
    assert_eq!(names(home.path()), ["locks"]);
    drop(KeyLocks::new(&directory).expect("still of use"));
}

/// A process that was killed while it replaced a file or tried the locks leaves a file that nobody else would ever remove.
#[test]
fn what_killed_processes_left_is_removed_and_what_is_in_use_is_not() {
    let home = tempdir().expect("a directory");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3600);
    for name in [".flight-write.7-0-1", ".flight-probe.7-1-1", ".flight-write.8-0-2", ".hidden", "flight.epoch"] {
        let file = fs::File::create(home.path().join(name)).expect("a file");
        if !name.ends_with('2') {
            file.set_modified(old).expect("an old file");
        }
    }
    drop(LocalDirectory::open(home.path()).expect("a directory"));
    assert_eq!(names(home.path()), [".flight-write.8-0-2", ".hidden", "flight.epoch"]);
}
