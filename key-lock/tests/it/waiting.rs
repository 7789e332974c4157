//! Who waits for a key, gets it, or stops waiting for it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tempfile::tempdir;

use super::actor::{Actor, heed, role, say};
use super::{DEADLINE, EndOf, is_held, locks_at, take};

#[test]
fn a_killed_holder_frees_its_key_at_once() {
    role("hold", |directory| {
        let _lock = take(&locks_at(directory), "k");
        say("holding");
        heed();
    });
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    for _ in 0..5 {
        let mut holder = Actor::start("waiting::a_killed_holder_frees_its_key_at_once", "hold", home.path());
        holder.hear("holding");
        assert!(is_held(&locks, "k"));
        holder.kill();
        let lock = locks.look(b"k").expect("a look").expect("one look finds it free");
        assert!(lock.is_current().expect("a look at the path"));
    }
}

/// Whoever looks at a lock takes it for a moment. That must not be told as "somebody holds it".
#[test]
fn those_who_look_do_not_make_a_key_look_held() {
    /// A looker that the scheduler stops for so long while it has the lock does hold it.
    const STOPPED: u64 = 1_000_000;
    let home = tempdir().expect("a directory");
    let done = AtomicBool::new(false);
    // The longest that the looker has had the lock, in nanoseconds; all ones while it may have it.
    let longest = AtomicU64::new(0);
    let (busy, unexcused) = std::thread::scope(|scope| {
        let _end = EndOf(&done);
        scope.spawn(|| {
            let locks = locks_at(home.path());
            while !done.load(Ordering::SeqCst) {
                let before = longest.swap(u64::MAX, Ordering::SeqCst);
                let started = Instant::now();
                drop(locks.look(b"k").expect("a look"));
                let nanos = u64::try_from(started.elapsed().as_nanos()).expect("not so long");
                longest.store(nanos.max(before), Ordering::SeqCst);
                // tidy: it looks as often as one who waits for a lock does
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let locks = locks_at(home.path());
        let (mut busy, mut tries, mut unexcused) = (0, 0, None);
        // The test proves nothing unless the two have met.
        while unexcused.is_none() && (tries < 500 || busy < 5) {
            busy += u32::from(locks.look(b"k").expect("a look").is_none());
            if locks.try_acquire(b"k").expect("a try").is_none() {
                // Look the culprit's clock over, once it has let go.
                while longest.load(Ordering::SeqCst) == u64::MAX {
                    std::thread::yield_now();
                }
                unexcused = Some(longest.swap(0, Ordering::SeqCst)).filter(|nanos| *nanos < STOPPED);
            }
            tries += 1;
        }
        (busy, unexcused)
    });
    assert_eq!(unexcused, None, "told as held, though no look took longer than that (in ns)");
    assert!(busy >= 5);
}

#[test]
fn a_blocking_wait_gets_the_key_or_ends_at_its_limit() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let lock = take(&locks, "k");
    let limit = Duration::from_millis(30);
    let started = Instant::now();
    assert!(locks.acquire_blocking(b"k", Some(limit)).expect("a wait").is_none());
    assert!(started.elapsed() >= limit && started.elapsed() < DEADLINE);
    assert!(locks.acquire_blocking(b"k", Some(Duration::ZERO)).expect("a wait").is_none());
    assert!(locks.acquire_blocking(b"free", Some(Duration::ZERO)).expect("a wait").is_some(), "it looks once");

    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| locks.acquire_blocking(b"k", None).expect("a wait"));
        lock.unlock().expect("an unlock");
        assert!(waiter.join().expect("no panic").is_some());
    });
}

#[tokio::test]
async fn an_async_wait_gets_the_key_when_it_is_free() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let lock = take(&locks, "k");
    let mut waiter = pin!(locks.acquire(b"k"));
    assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    lock.unlock().expect("an unlock");
    let waited = tokio::time::timeout(DEADLINE, waiter).await.expect("in time");
    assert!(waited.expect("a wait").is_current().expect("a look"));
}

/// A wait inside the kernel could not be withdrawn: it would take the lock later, for nobody.
#[tokio::test(start_paused = true)]
async fn a_dropped_wait_takes_nothing_later() {
    let home = tempdir().expect("a directory");
    let locks = locks_at(home.path());
    let lock = take(&locks, "k");
    for _ in 0..100 {
        // The paused clock lets all its looks happen at once.
        let waited = tokio::time::timeout(Duration::from_millis(100), locks.acquire(b"k")).await;
        assert!(waited.is_err(), "it is held");
    }
    let mut dropped_in_the_middle = Box::pin(locks.acquire(b"k"));
    assert!(matches!(dropped_in_the_middle.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    drop(dropped_in_the_middle);

    lock.unlock().expect("an unlock");
    for _ in 0..100 {
        assert!(locks.look(b"k").expect("a look").is_some(), "nobody took it");
        // tidy: lets whatever would still wait look again; the clock is paused
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A thread for each wait would still be there, and keep the program from ending.
#[cfg(target_os = "linux")]
#[test]
fn waits_need_no_threads() {
    role("wait", |directory| {
        let locks = locks_at(directory);
        let _lock = take(&locks, "k");
        let threads = || std::fs::read_dir("/proc/self/task").expect("a list of threads").count();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let before = threads();
        runtime.block_on(async {
            let mut waits: Vec<_> = (0..50).map(|_| Box::pin(locks.acquire(b"k"))).collect();
            for _ in 0..5 {
                for wait in &mut waits {
                    assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                }
                // tidy: lets their pauses end, so that they look again
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!(threads(), before, "while they wait");
        });
        drop(runtime);
        assert_eq!(threads(), before, "after they were dropped");
        say("as many as before");
    });
    let home = tempdir().expect("a directory");
    Actor::start("waiting::waits_need_no_threads", "wait", home.path()).hear("as many as before");
}

/// Two processes that have the same process id, each in its own container: only the kernel lock decides.
#[cfg(target_os = "linux")]
#[test]
fn process_ids_decide_nothing() {
    const TEST: &str = "waiting::process_ids_decide_nothing";
    const CONTAINER: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--"];
    role("hold", |directory| {
        assert_eq!(std::process::id(), 1);
        let _lock = take(&locks_at(directory), "k");
        say("holding");
        heed();
    });
    role("contend", |directory| {
        assert_eq!(std::process::id(), 1);
        let locks = locks_at(directory);
        assert!(is_held(&locks, "k"));
        say("it is held");
        let lock = locks.acquire_blocking(b"k", None).expect("a wait");
        say(if lock.is_some() { "mine" } else { "nobody's" });
    });
    if !std::process::Command::new("unshare").args(["--pid", "--fork", "true"]).status().is_ok_and(|it| it.success()) {
        return super::skipped(TEST, "namespaces cannot be made here");
    }
    let home = tempdir().expect("a directory");
    let mut holder = Actor::start_by(&CONTAINER, TEST, "hold", home.path());
    holder.hear("holding");
    let mut contender = Actor::start_by(&CONTAINER, TEST, "contend", home.path());
    contender.hear("it is held");
    holder.kill();
    contender.hear("mine");
}
