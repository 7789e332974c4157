//! What the work holds, and what it hears.

use std::error::Error;
use std::io;

use flight_key_lock::KeyLocks;
use single_flight::{HeldWhy, RunError};
use tokio::sync::oneshot;

use crate::{hold_with, join, joiner, key_locks, open, soon, until};

#[tokio::test]
async fn a_clone_that_lives_on_keeps_the_key_and_status_shows_it() {
    let (home, flights) = open::<u32>();
    let (keep, kept) = oneshot::channel();
    let leader = hold_with(&flights, "k", async move |lease| {
        drop(keep.send(lease));
        Ok::<_, io::Error>(1)
    });
    let leader = leader.await;
    leader.end.send(()).unwrap();
    let lease = soon(kept).await.unwrap();
    // The flight is over.
    assert_eq!(soon(leader.call).await.unwrap().value, 1);
    let held = flights.status().await.held;
    assert_eq!((held.len(), held[0].key.as_str(), held[0].why), (1, "k", HeldWhy::Leased));
    assert!(key_locks(&home).try_is_held(b"k").unwrap());
    let waits = flights.run("k", |_| async { Ok::<_, io::Error>(2) }).start();
    until(|| crate::is_waited_for(&flights, "k")).await;
    drop(lease);
    let next = soon(waits).await.unwrap();
    assert_eq!((next.value, next.joined), (2, false));
    assert!(flights.status().await.held.is_empty());
}

#[tokio::test]
async fn a_lease_is_lost_when_its_lock_file_is_removed() {
    let (home, flights) = open::<u32>();
    let (tell, told) = oneshot::channel();
    let leader = flights
        .run("k", |lease| async move {
            tell.send(lease.token()).unwrap();
            lease.lost().await;
            assert!(lease.is_lost());
            lease.check()?;
            Ok::<_, Box<dyn Error + Send + Sync>>(1)
        })
        .start();
    let token = soon(told).await.unwrap();
    let (joined, _) = join(joiner(&flights, "k")).await;
    std::fs::remove_file(home.path().join("execution-locks").join(KeyLocks::file_name(b"k"))).unwrap();
    let error = soon(joined).await.unwrap_err();
    assert!(matches!(error, RunError::Interrupted { token: of, .. } if of == token), "{error:?}");
    let error = soon(leader).await.unwrap_err();
    let RunError::LeaseLost(lost) = &error else { panic!("{error:?}") };
    assert_eq!((lost.subject(), lost.token()), ("k", token));
    // What the work itself said is the source. Here it is the same again, from `check`.
    let source = lost.source().unwrap();
    assert!(source.downcast_ref::<single_flight::LeaseLost>().is_some(), "{source:?}");
    assert!(flights.run("k", |_| async { Ok::<_, io::Error>(2) }).await.unwrap().token > token);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_touched_or_linked_is_still_the_same() {
    let (home, flights) = open::<u32>();
    let leader = hold_with(&flights, "k", async |lease| Ok::<_, io::Error>(u32::from(lease.is_lost()))).await;
    let file = home.path().join("execution-locks").join(KeyLocks::file_name(b"k"));
    std::fs::hard_link(&file, home.path().join("link")).unwrap();
    std::fs::copy(&file, home.path().join("copy")).unwrap();
    std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    // The look at it comes each second: two have passed when a file that was removed later is missed.
    let removed = hold_with(&flights, "removed", async |lease| {
        lease.lost().await;
        Ok::<_, io::Error>(0)
    });
    let removed = removed.await;
    std::fs::remove_file(home.path().join("execution-locks").join(KeyLocks::file_name(b"removed"))).unwrap();
    removed.end.send(()).unwrap();
    assert!(matches!(soon(removed.call).await, Err(RunError::LeaseLost(_))));
    leader.end.send(()).unwrap();
    assert_eq!(soon(leader.call).await.unwrap().value, 0);
}

#[cfg(unix)]
#[tokio::test]
async fn a_child_is_started_with_the_key_and_the_lease_lets_go_of_it_all_the_same() {
    use std::process::{Command, Stdio};
    let (home, flights) = open::<u32>();
    let (tell, told) = oneshot::channel();
    let leader = hold_with(&flights, "k", async move |lease| {
        let child = lease.spawn(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        drop(tell.send(child));
        Ok::<_, io::Error>(1)
    });
    let leader = leader.await;
    leader.end.send(()).unwrap();
    let mut child = soon(told).await.unwrap();
    soon(leader.call).await.unwrap();
    // It covers our death only: the last lease is gone, so that the key is free, although the child lives.
    assert!(child.try_wait().unwrap().is_none());
    until(async || !key_locks(&home).try_is_held(b"k").unwrap()).await;
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
