//! Forks without exec: the child has a copy of everything, the open lock files too.

use std::path::Path;

use tempfile::tempdir;

use super::actor::{Actor, heed, role, say};
use super::{is_held, locks_at, take};

/// Forks this process. The child runs `child` and ends; it is waited for.
fn in_fork(child: impl FnOnce()) {
    if let Some(pid) = fork(child) {
        let mut status = 0;
        // SAFETY: the pointer leads to a number that outlives the call.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!((ended, status), (pid, 0), "the forked child failed");
    }
}

/// The child's id. The child itself runs `child` and ends.
fn fork(child: impl FnOnce()) -> Option<libc::pid_t> {
    #[cfg(target_os = "linux")]
    {
        let threads = std::fs::read_dir("/proc/self/task").expect("a list of threads").count();
        assert!(threads <= 2, "a fork beside a busy thread could stop at a lock that this has");
    }
    // SAFETY: besides this thread the process has at most the one that waits for the end of the test, and holds no lock meanwhile. So no lock
    // of the allocator or the library is held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        -1 => panic!("cannot fork: {}", std::io::Error::last_os_error()),
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
            // SAFETY: ends the child without what its parent has registered for the end of the process.
            unsafe { libc::_exit(i32::from(!done)) }
        }
        pid => Some(pid),
    }
}

/// What a child could do with its parent's lock, in the words of the table below.
fn end_in_child(directory: &Path, how: &str) {
    let locks = locks_at(directory);
    let mut lock = Some(take(&locks, "k"));
    in_fork(|| match how {
        "drop" => drop(lock.take()),
        "unlock" => lock.take().expect("a copy").unlock().expect("nothing to do"),
        "panic" => {
            let lock = lock.take();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _lock = lock;
                panic!("on purpose")
            }))
            .expect_err("a panic");
        }
        "end" => {}
        "use" => {
            let lock = lock.as_ref().expect("a copy");
            assert!(!lock.is_current().expect("a look"), "the lock is the parent's");
            assert!(lock.spawn(&mut std::process::Command::new("true")).is_err(), "there is nothing to hand over");
            assert!(is_held(&locks, "k"), "the parent holds it");
            // Keys of its own it may have, by the handle that it inherited.
            let own = take(&locks, "own");
            assert!(own.is_current().expect("a look") && is_held(&locks, "own"));
            own.unlock().expect("an unlock");
            assert!(!is_held(&locks, "own"));
        }
        how => panic!("{how}?"),
    });
    assert!(lock.as_ref().expect("the parent's").is_current().expect("a look"));
    say("the child has ended");
    heed();
    lock.take().expect("the parent's").unlock().expect("an unlock");
    say("unlocked");
    heed();
}

#[test]
fn nothing_a_forked_child_does_frees_its_parents_key() {
    for how in ["drop", "unlock", "panic", "end", "use"] {
        role(how, |directory| end_in_child(directory, how));
    }
    for how in ["drop", "unlock", "panic", "end", "use"] {
        let home = tempdir().expect("a directory");
        let locks = locks_at(home.path());
        let mut parent = Actor::start("fork::nothing_a_forked_child_does_frees_its_parents_key", how, home.path());
        parent.hear("the child has ended");
        assert!(is_held(&locks, "k"), "{how} in the child");
        parent.nod();
        parent.hear("unlocked");
        assert!(!is_held(&locks, "k"), "after {how} in the child");
        parent.succeeds();
    }
}

/// What the child inherits does not keep the parent from unlocking; only when the parent dies without that does it count.
#[test]
fn a_forked_child_keeps_the_key_of_a_killed_parent_but_not_of_one_that_unlocked() {
    role("fork", |directory| {
        let locks = locks_at(directory);
        let (unlocked, kept) = (take(&locks, "unlocked"), take(&locks, "kept"));
        let child = fork(|| {
            say("forked");
            // Ends with the test's end of the pipe.
            while std::io::stdin().lines().next().is_some() {}
        });
        assert!(child.is_some());
        unlocked.unlock().expect("an unlock");
        say("unlocked");
        // SAFETY: changes nothing but the state of this process, which is stopped until it is killed.
        unsafe { libc::raise(libc::SIGSTOP) };
        drop(kept);
    });
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let test = "fork::a_forked_child_keeps_the_key_of_a_killed_parent_but_not_of_one_that_unlocked";
    let mut parent = Actor::start(test, "fork", home.path());
    let mut words = [parent.hear_any(), parent.hear_any()];
    words.sort();
    assert_eq!(words, ["forked", "unlocked"]);
    assert!(!is_held(&locks, "unlocked"), "the child's copy is worth nothing after the unlock");
    parent.kill();
    assert!(is_held(&locks, "kept"), "the child has the open file");
    parent.close_stdin();
    assert!(locks.acquire_blocking(b"kept", Some(super::DEADLINE)).expect("a wait").is_some(), "until it ends");
}
