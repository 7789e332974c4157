//! Nothing left: descriptors, inodes, space, the right to write.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};

use flight_key_lock::{KeyLocks, LocalDirectory};
use tempfile::tempdir;

use super::actor::{Actor, role, say};
use super::{is_held, locks_at, names, take};

#[test]
fn without_descriptors_the_error_says_so_and_nothing_is_held() {
    role("exhaust", |directory| {
        let locks = locks_at(directory);
        drop(take(&locks, "k"));
        let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("a lower limit");
        let mut taken = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        let told = locks.look(b"k").expect_err("no descriptor is left").to_string();
        for part in ["open", &*directory.to_string_lossy(), "the limit of open files"] {
            assert!(told.contains(part), "{part} is missing from: {told}");
        }
        let told = LocalDirectory::open(directory).expect_err("no descriptor is left").to_string();
        for part in [&*directory.to_string_lossy(), "the limit of open files"] {
            assert!(told.contains(part), "{part} is missing from: {told}");
        }
        // With each one more that is free it fails at another step, and holds nothing.
        let lock = loop {
            taken.pop();
            if let Ok(lock) = locks.look(b"k") {
                break lock;
            }
        };
        assert!(lock.is_some(), "what failed holds nothing");
        while LocalDirectory::open(directory).is_err() {
            assert!(taken.pop().is_some());
        }
        say("done");
    });
    let home = tempdir().expect("a directory");
    let test = "scarcity::without_descriptors_the_error_says_so_and_nothing_is_held";
    Actor::start(test, "exhaust", home.path()).hear("done");
    assert!(!is_held(&locks_at(home.path()), "k"));
    assert_eq!(names(home.path()), ["execution-locks"]);
}

/// Runs a role on a file system of its own, with these mount options.
#[cfg(target_os = "linux")]
fn on_small_file_system(test: &str, name: &str, options: &str) {
    let mount = format!("mount -t tmpfs -o {options} none \"$FLIGHT_TEST_DIRECTORY\" && exec \"$@\"");
    let prefix = ["unshare", "--mount", "--", "sh", "-c", &mount, "sh"];
    let home = tempdir().expect("a directory");
    let mut mounting = Command::new("unshare");
    mounting.args(["--mount", "--", "sh", "-c", "mount -t tmpfs none \"$0\""]).arg(home.path()).stderr(Stdio::null());
    if !mounting.status().is_ok_and(|status| status.success()) {
        return super::skipped(test, "nothing can be mounted here");
    }
    let mut actor = Actor::start_by(&prefix, test, name, home.path());
    actor.hear("done");
    actor.succeeds();
}

#[cfg(target_os = "linux")]
fn assert_told(error: &dyn std::error::Error, parts: &[&str], path: &Path) {
    let told = error.to_string();
    for part in parts.iter().copied().chain([&*path.to_string_lossy()]) {
        assert!(told.contains(part), "{part} is missing from: {told}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_inodes_the_error_names_the_step_and_the_path() {
    const TEST: &str = "scarcity::without_inodes_the_error_names_the_step_and_the_path";
    // The root of the file system is the first inode. A lock file is taken for the try of the locks, and given back.
    role("one inode", |directory| {
        let error = LocalDirectory::open(directory).expect_err("no inode is left");
        assert_told(&error, &["make a file", "inodes"], directory);
        assert!(error.is_transient());
        assert!(names(directory).is_empty());
        let error = LocalDirectory::open(directory.join("new")).expect_err("no inode is left");
        assert_told(&error, &["create the directory"], &directory.join("new"));
        say("done");
    });
    role("three inodes", |directory| {
        let locks = locks_at(directory);
        let first = take(&locks, "first");
        let error = locks.look(b"second").expect_err("no inode is left");
        assert_told(&error, &["create", "second", "inodes"], &directory.join("execution-locks"));
        assert!(error.is_transient());
        // What was there goes on, and room helps.
        assert!(first.is_current().expect("a look") && is_held(&locks, "first"));
        first.unlock().expect("an unlock");
        assert_eq!(locks.sweep().expect("a sweep").removed, 1);
        drop(take(&locks, "second"));
        say("done");
    });
    on_small_file_system(TEST, "one inode", "nr_inodes=1");
    on_small_file_system(TEST, "three inodes", "nr_inodes=3");
}

#[cfg(target_os = "linux")]
#[test]
fn without_space_a_file_stays_as_it_was_and_locks_go_on() {
    const TEST: &str = "scarcity::without_space_a_file_stays_as_it_was_and_locks_go_on";
    role("no space", |directory| {
        let directory = LocalDirectory::open(directory).expect("a directory");
        directory.replace_durably("note", b"old").expect("one page");
        let error = directory.replace_durably("note", &[b'x'; 64 << 10]).expect_err("16 pages more");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        assert_eq!(directory.read("note").expect("a read").as_deref(), Some(&b"old"[..]));
        assert_eq!(names(directory.path()), ["note"]);
        let locks = KeyLocks::new(&directory).expect("locks");
        assert!(take(&locks, "k").is_current().expect("a look"), "an empty file needs no space");
        say("done");
    });
    on_small_file_system(TEST, "no space", "size=16k");
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_mount_is_told() {
    const TEST: &str = "scarcity::a_read_only_mount_is_told";
    role("read-only", |directory| {
        let error = LocalDirectory::open(directory).expect_err("nothing can be made");
        assert_told(&error, &["read-only"], directory);
        let error = LocalDirectory::open(directory.join("new")).expect_err("nothing can be made");
        assert_told(&error, &["read-only"], directory);
        say("done");
    });
    on_small_file_system(TEST, "read-only", "ro");
}
