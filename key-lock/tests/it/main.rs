//! The promises of `flight-key-lock`, as a user meets them: with real processes, real forks and real file systems.

mod actor;
mod current;
mod directory;
mod keys;
mod sweep;
mod waiting;

#[cfg(unix)]
mod access;
#[cfg(unix)]
mod children;
#[cfg(unix)]
mod fork;
#[cfg(target_os = "linux")]
mod lying_kernel;
#[cfg(unix)]
mod scarcity;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flight_key_lock::{KeyLock, KeyLocks, LocalDirectory};

/// Long enough for any machine; a test that reaches it fails.
const DEADLINE: Duration = Duration::from_secs(60);

fn locks_at(directory: impl AsRef<Path>) -> KeyLocks {
    let directory = LocalDirectory::open(directory).expect("a directory for locks");
    KeyLocks::new(&directory).expect("a folder for locks")
}

/// A temporary directory in memory, where there is one: for tests that make thousands of files, and not to keep disks busy.
fn home_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// Takes the lock of a key that must be free.
fn take(locks: &KeyLocks, key: impl AsRef<[u8]>) -> KeyLock {
    locks.try_acquire(key.as_ref()).expect("a lock that can be tried").expect("a key that nobody holds")
}

fn is_held(locks: &KeyLocks, key: impl AsRef<[u8]>) -> bool {
    locks.try_is_held(key.as_ref()).expect("a lock that can be tried")
}

/// The names in the folder of the lock files.
fn lock_files(directory: &Path) -> Vec<String> {
    names(&directory.join("execution-locks"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain text")).collect();
    names.sort();
    names
}

/// Appends to a file that many processes write: each call is one write, which the kernel puts at the end as a whole.
fn append(log: &Path, line: &str) {
    let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).expect("the log");
    log.write_all(format!("{line}\n").as_bytes()).expect("a line in the log");
}

/// Asserts that the log shows no start between another's start and its end.
fn assert_no_overlap(log: &Path) -> usize {
    let log = std::fs::read_to_string(log).expect("the log");
    let mut lines = log.lines();
    let mut runs = 0;
    while let Some(start) = lines.next() {
        let who = start.strip_prefix("start ").unwrap_or_else(|| panic!("a start was expected, not {start:?}"));
        assert_eq!(lines.next(), Some(format!("end {who}").as_str()), "run {runs} was not alone");
        runs += 1;
    }
    runs
}

/// Tells the threads of a test to end when it does, also by a panic: which would wait for them for ever otherwise.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Says on the terminal that a test could not be run here, which must not pass unseen.
#[cfg(unix)]
fn skipped(test: &str, reason: &str) {
    // Not by `eprintln`, which the test runner hides.
    drop(writeln!(std::io::stderr(), "SKIPPED {test}: {reason}"));
}
