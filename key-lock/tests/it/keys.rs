//! Which keys are the same, and what their files are called.

use std::collections::HashSet;

use tempfile::tempdir;

use super::actor::{Actor, role, say};
use super::{is_held, lock_files, locks_at, take};

#[test]
fn every_key_is_its_own_and_its_file_has_64_digits() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let long = vec![b'x'; 1 << 20];
    let mut almost = long.clone();
    *almost.last_mut().expect("not empty") = b'y';
    let keys: Vec<&[u8]> = vec![
        b"",
        b" ",
        b"\0",
        b"\0\0",
        b"..",
        b"a/b",
        b"a\\b",
        b"line\n",
        b"K",
        b"k",
        b"\xff",
        "é".as_bytes(),
        "e\u{301}".as_bytes(),
        &long[..255],
        &long[..256],
        &almost,
        &long,
    ];

    let held: Vec<_> = keys.iter().map(|key| take(&locks, key)).collect();

    for key in &keys {
        assert!(is_held(&locks, key), "equal bytes are the same key: {:?}", key.escape_ascii().to_string());
    }
    let files = lock_files(home.path());
    assert_eq!(files.len(), keys.len());
    for name in &files {
        let hexadecimal = name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        assert!(name.len() == 64 && hexadecimal, "{name}");
    }
    let computed: HashSet<String> = keys.iter().map(|key| flight_key_lock::KeyLocks::file_name(key)).collect();
    assert_eq!(computed, files.into_iter().collect());
    drop(held);
}

/// The names are frozen: another version or another program that chose others would not exclude this one. The digests are those of
/// FIPS 180-4's example "abc" and of the empty message.
#[test]
fn the_file_is_named_by_the_sha_256_of_the_key() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    drop((take(&locks, ""), take(&locks, "abc")));
    assert_eq!(
        lock_files(home.path()),
        [
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ]
    );
}

#[test]
fn two_handles_of_one_process_exclude_each_other_and_the_end_of_one_frees_nothing() {
    role("contend", |directory| {
        let locks = locks_at(directory);
        say(if is_held(&locks, "k") { "held" } else { "free" });
    });
    let contend = |home: &std::path::Path| {
        let test = "keys::two_handles_of_one_process_exclude_each_other_and_the_end_of_one_frees_nothing";
        Actor::start(test, "contend", home)
    };
    let home = tempdir().expect("a directory");
    let (first, second) = (locks_at(home.path()), locks_at(home.path()));

    let lock = take(&first, "k");
    assert!(is_held(&second, "k"));
    assert!(is_held(&first, "k"), "not even through the same handle");
    assert!(!is_held(&second, "another"));

    // With locks that belong to the process, this would end the first handle's lock too.
    drop(second);
    contend(home.path()).hear("held");
    lock.unlock().expect("an unlock");
    contend(home.path()).hear("free");
}
