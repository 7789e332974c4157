//! Child processes: the one that keeps a key, and all others, which keep nothing.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::tempdir;

use super::actor::{Actor, role};
use super::{DEADLINE, EndOf, home_in_memory, is_held, locks_at, take};

/// A child that says so once it runs, and ends with its standard input, which the test holds.
fn long_command() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo the child runs >&2; exec cat >/dev/null"]);
    command
}

/// Waits until the child has been started wholly: it reads what it is sent.
fn started(mut command: Command, start: impl FnOnce(&mut Command) -> std::io::Result<Child>) -> Child {
    let mut child = start(command.stdin(Stdio::piped()).stderr(Stdio::piped())).expect("a child");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "the child runs\n");
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("its end").success());
}

fn lead(directory: &Path, start: impl FnOnce(&flight_key_lock::KeyLock, &mut Command) -> std::io::Result<Child>) {
    let lock = take(&locks_at(directory), "k");
    let mut child = start(&lock, &mut long_command()).expect("a child");
    // Until it is killed. The child reads the standard input.
    drop(child.wait());
}

#[test]
fn a_child_that_was_handed_the_key_keeps_it_when_its_parent_is_killed() {
    role("lead", |directory| lead(directory, |lock, command| lock.spawn(command)));
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let test = "children::a_child_that_was_handed_the_key_keeps_it_when_its_parent_is_killed";
    let mut leader = Actor::start(test, "lead", home.path());
    leader.hear("the child runs");
    leader.kill();
    assert!(is_held(&locks, "k"), "the work goes on in the child");
    assert!(locks.acquire_blocking(b"k", Some(std::time::Duration::from_millis(50))).expect("a wait").is_none());
    leader.close_stdin();
    assert!(locks.acquire_blocking(b"k", Some(DEADLINE)).expect("a wait").is_some(), "the child has ended");
}

/// Scripts number their files from 3 to 9. A lock under one of these would end when its number is used.
#[test]
fn a_script_may_use_all_numbers_that_scripts_use() {
    role("lead", |directory| {
        let lock = take(&locks_at(directory), "k");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "for n in 3 4 5 6 7 8 9; do eval \"exec $n>&-\"; done; echo the child runs >&2; cat >/dev/null",
        ]);
        drop(lock.spawn(&mut command).and_then(|mut child| child.wait()));
    });
    let home = tempdir().expect("a directory");
    let test = "children::a_script_may_use_all_numbers_that_scripts_use";
    let mut leader = Actor::start(test, "lead", home.path());
    leader.hear("the child runs");
    leader.kill();
    assert!(is_held(&locks_at(home.path()), "k"));
}

#[test]
fn any_other_child_keeps_nothing() {
    role("lead", |directory| lead(directory, |_, command| command.spawn()));
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let mut leader = Actor::start("children::any_other_child_keeps_nothing", "lead", home.path());
    leader.hear("the child runs");
    assert!(is_held(&locks, "k"));
    leader.kill();
    assert!(!is_held(&locks, "k"), "though the child lives");
}

/// The command remembers that it hands over a descriptor: whose number may be another file's by now.
#[test]
fn a_command_that_is_used_again_hands_over_nothing() {
    role("lead", |directory| {
        let locks = locks_at(directory);
        let lock = take(&locks, "k");
        let mut command = Command::new("sh");
        command.args(["-c", "test ! -e \"$0\" || { echo the child runs >&2; exec cat >/dev/null; }"]);
        command.arg(directory.join("second"));
        assert!(lock.spawn(&mut command).and_then(|mut child| child.wait()).expect("a child").success());
        std::fs::write(directory.join("second"), "").expect("a file");
        // It takes the number that the handed descriptor had.
        let other = take(&locks, "other");
        let mut child = command.spawn().expect("a child");
        drop(child.wait());
        drop((lock, other));
    });
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let mut leader = Actor::start("children::a_command_that_is_used_again_hands_over_nothing", "lead", home.path());
    leader.hear("the child runs");
    assert!(is_held(&locks, "k") && is_held(&locks, "other"));
    leader.kill();
    assert!(!is_held(&locks, "k") && !is_held(&locks, "other"), "though the child lives");
}

#[test]
fn an_unlock_frees_the_key_although_the_child_that_has_it_lives() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    for explicitly in [true, false] {
        let lock = take(&locks, "k");
        let child = started(long_command(), |command| lock.spawn(command));
        assert!(is_held(&locks, "k"));
        if explicitly {
            lock.unlock().expect("an unlock");
        } else {
            drop(lock);
        }
        assert!(locks.look(b"k").expect("a look").is_some(), "at once");
        end(child);
    }
}

/// A daemon that was started inside the work, and inherits what its parent has, keeps the key no longer than the unlock.
#[test]
fn a_daemon_of_the_child_does_not_keep_the_key_for_ever() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let lock = take(&locks, "k");
    let mut command = Command::new("sh");
    // The daemon is in the background; the shell ends.
    command.args(["-c", "exec 3<&0; sh -c 'echo the child runs >&2; exec cat <&3 >/dev/null' & exit 0"]);
    let mut child = started(command, |command| lock.spawn(command));
    let daemon = child.stdin.take();
    assert!(child.wait().expect("its end").success());
    assert!(is_held(&locks, "k"), "until the holder says so");
    lock.unlock().expect("an unlock");
    assert!(locks.look(b"k").expect("a look").is_some());
    drop(daemon);
}

#[test]
fn a_child_that_cannot_be_started_leaves_the_lock_as_it_was() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let lock = take(&locks, "k");
    let error = lock.spawn(&mut Command::new(home.path().join("no such command"))).expect_err("there is none");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(is_held(&locks, "k"));
    lock.unlock().expect("an unlock");
    assert!(locks.look(b"k").expect("a look").is_some());
}

/// A child between fork and exec has every descriptor of its parent. Freed by closing alone, the key would be held for that moment.
#[test]
fn an_unlock_is_seen_at_once_while_other_threads_start_processes() {
    let home = home_in_memory();
    let locks = locks_at(home.path());
    let done = AtomicBool::new(false);
    let (busy, started) = std::thread::scope(|scope| {
        let end = EndOf(&done);
        let starters: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut started = 0;
                    while !done.load(Ordering::SeqCst) {
                        assert!(Command::new("true").status().expect("a child").success());
                        started += 1;
                    }
                    started
                })
            })
            .collect();
        let mut busy = 0;
        for key in 0..2000_u32 {
            let key = key.to_le_bytes();
            let lock = locks.look(&key).expect("a look").expect("a fresh key");
            if key[0] % 2 == 0 {
                lock.unlock().expect("an unlock");
            } else {
                drop(lock);
            }
            busy += u32::from(locks.look(&key).expect("a look").is_none());
        }
        drop(end);
        let started: u32 = starters.into_iter().map(|starter| starter.join().expect("no panic")).sum();
        (busy, started)
    });
    assert_eq!(busy, 0, "of 2000 looks after an unlock");
    assert!(started > 10, "only {started} processes were started meanwhile");
}
