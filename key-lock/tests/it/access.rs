//! Modes, owners and other users.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use flight_key_lock::{KeyLocks, LocalDirectory};
use tempfile::tempdir;

use super::actor::{Actor, role, say};
use super::{lock_files, locks_at, skipped, take};

/// The user that is never an owner: `nobody` on most systems.
const STRANGER: u32 = 65534;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a change of mode");
}

#[test]
fn directories_are_0700_and_lock_files_0600_under_any_umask() {
    const MASKS: [(&str, u32); 3] = [("000", 0), ("077", 0o077), ("777", 0o777)];
    for (name, mask) in MASKS {
        role(name, |directory| {
            // Of the whole process, which is why it is one of its own.
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
            let directory = LocalDirectory::open(directory.join("a/b")).expect("a directory");
            drop(take(&KeyLocks::new(&directory).expect("locks"), "k"));
            directory.replace_durably("note", b"").expect("a file");
            let now = rustix::process::umask(rustix::fs::Mode::empty());
            assert_eq!(now.as_raw_mode(), mask, "the umask is left alone");
            say("done");
        });
    }
    for (name, _) in MASKS {
        let home = tempdir().expect("a directory");
        let test = "access::directories_are_0700_and_lock_files_0600_under_any_umask";
        Actor::start(test, name, home.path()).hear("done");
        for (path, expected) in [("a", 0o700), ("a/b", 0o700), ("a/b/execution-locks", 0o700), ("a/b/note", 0o600)] {
            assert_eq!(mode(&home.path().join(path)), expected, "{path} under umask {name}");
        }
        for file in lock_files(&home.path().join("a/b")) {
            assert_eq!(mode(&home.path().join("a/b/execution-locks").join(file)), 0o600, "under umask {name}");
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes this process another user's, for good.
fn become_stranger() {
    // SAFETY: the list is empty, so that its pointer is not used.
    let groups = unsafe { libc::setgroups(0, std::ptr::null()) };
    // SAFETY: takes numbers, and changes the whole process, as is meant.
    let group = unsafe { libc::setgid(STRANGER) };
    // SAFETY: as above.
    let user = unsafe { libc::setuid(STRANGER) };
    assert_eq!((groups, group, user), (0, 0, 0), "root may do that");
}

/// Says what stands in the way of a stranger who wants the key "k".
fn ask_as_stranger(directory: &Path) {
    become_stranger();
    let outcome = match LocalDirectory::open(directory) {
        Err(error) => error.to_string(),
        Ok(directory) => match KeyLocks::new(&directory) {
            Err(error) => error.to_string(),
            Ok(locks) => match locks.look(b"k") {
                Err(error) => error.to_string(),
                Ok(lock) => format!("got {}", lock.is_some()),
            },
        },
    };
    say(&format!("outcome: {outcome}"));
}

#[test]
fn a_stranger_is_told_whose_the_directory_is() {
    const TEST: &str = "access::a_stranger_is_told_whose_the_directory_is";
    role("ask", ask_as_stranger);
    if !is_root() {
        return skipped(TEST, "only root can become another user");
    }
    let home = tempdir().expect("a directory");
    chmod(home.path(), 0o755);
    let path = home.path().join("locks");
    drop(take(&locks_at(&path), "k"));
    let folder = path.join("execution-locks");
    let file = folder.join(KeyLocks::file_name(b"k"));

    // From the outside to the inside, each with its modes, and the one at which the way ends.
    for (modes, obstacle, mode) in [
        ([0o700, 0o700, 0o600], &path, "0700"),
        ([0o755, 0o700, 0o600], &path, "0755"),
        ([0o777, 0o700, 0o600], &folder, "0700"),
        ([0o777, 0o777, 0o600], &file, "0600"),
        ([0o777, 0o777, 0o644], &file, "0644"),
    ] {
        for (path, mode) in [&path, &folder, &file].into_iter().zip(modes) {
            chmod(path, mode);
        }
        let told = Actor::start(TEST, "ask", &path).hear_first("outcome: ");
        for part in [&*obstacle.to_string_lossy(), "user 0", mode] {
            assert!(told.contains(part), "{part} is missing from: {told}");
        }
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 1, "nothing is left behind");
    }

    // In a directory that cannot be reached at all.
    chmod(home.path(), 0o700);
    let told = Actor::start(TEST, "ask", &path).hear_first("outcome: ");
    assert!(told.contains(&*path.to_string_lossy()) && told.contains("user 0"), "{told}");
}

#[test]
fn a_directory_that_was_opened_to_others_serves_them() {
    const TEST: &str = "access::a_directory_that_was_opened_to_others_serves_them";
    role("ask", ask_as_stranger);
    if !is_root() {
        return skipped(TEST, "only root can become another user");
    }
    let home = tempdir().expect("a directory");
    chmod(home.path(), 0o755);
    let path = home.path().join("locks");
    let locks = locks_at(&path);
    drop(take(&locks, "k"));
    let folder = path.join("execution-locks");
    let file = folder.join(KeyLocks::file_name(b"k"));
    // Sticky, as /tmp: there the kernel refuses to open with "create" what another user owns, even to root.
    chmod(&path, 0o1777);
    chmod(&folder, 0o1777);
    chmod(&file, 0o666);
    assert_eq!(Actor::start(TEST, "ask", &path).hear_first("outcome: "), "outcome: got true");
    chown(&file, Some(STRANGER), Some(STRANGER)).expect("a change of owner");
    drop(take(&locks, "k"));
    assert_eq!(Actor::start(TEST, "ask", &path).hear_first("outcome: "), "outcome: got true");
}

/// Root's files in a user's directory would shut that user out.
#[test]
fn what_root_makes_in_a_users_directory_is_that_users() {
    const TEST: &str = "access::what_root_makes_in_a_users_directory_is_that_users";
    role("ask", ask_as_stranger);
    if !is_root() {
        return skipped(TEST, "only root can become another user");
    }
    let home = tempdir().expect("a directory");
    chmod(home.path(), 0o755);
    let path = home.path().join("locks");
    fs::create_dir(&path).expect("a directory");
    chmod(&path, 0o700);
    chown(&path, Some(STRANGER), Some(STRANGER)).expect("a change of owner");
    drop(take(&locks_at(&path), "k"));
    assert_eq!(Actor::start(TEST, "ask", &path).hear_first("outcome: "), "outcome: got true");
}
