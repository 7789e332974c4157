//! Dropping a call withdraws that caller, and nobody else.

use std::io;

use tokio::sync::oneshot;

use crate::{hold, is_waited_for, join, joiner, key_locks, open, soon, until};

#[tokio::test]
async fn the_work_of_a_caller_that_left_lands_for_the_joiners() {
    let (_home, flights) = open::<u32>();
    let leader = hold(&flights, "k", 7).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    drop(leader.call);
    leader.end.send(()).unwrap();
    let flight = soon(joined).await.unwrap();
    assert_eq!((flight.value, flight.joined, flight.token), (7, true, leader.token));
}

#[tokio::test]
async fn a_joiner_that_leaves_changes_nothing() {
    let (_home, flights) = open::<u32>();
    let leader = hold(&flights, "k", 7).await;
    let (leaves, _) = join(joiner(&flights, "k")).await;
    let (stays, _) = join(joiner(&flights, "k")).await;
    drop(leaves);
    leader.end.send(()).unwrap();
    assert_eq!(soon(leader.call).await.unwrap().value, 7);
    assert_eq!(soon(stays).await.unwrap().value, 7);
}

#[tokio::test]
async fn a_call_that_left_before_it_began_never_begins() {
    let (home, flights) = open::<u32>();
    // Somebody else has the key, and says nothing of it.
    let held = key_locks(&home).look(b"k").unwrap().unwrap();
    let (never, ran) = oneshot::channel();
    let first = flights.run("k", |_| async move { Ok::<_, io::Error>(never.send(()).map_or(0, |()| 1)) }).start();
    // The oldest that remains leads: the second brings its own work.
    let second = flights.run("k", |_| async { Ok::<_, io::Error>(2) }).start();
    until(|| is_waited_for(&flights, "k")).await;
    drop(first);
    held.unlock().unwrap();
    let flight = soon(second).await.unwrap();
    assert_eq!((flight.value, flight.joined), (2, false));
    assert!(ran.await.is_err(), "its work was dropped without having run");
}

#[tokio::test]
async fn a_call_that_left_alone_leaves_nothing_behind() {
    let (home, flights) = open::<u32>();
    let held = key_locks(&home).look(b"k").unwrap().unwrap();
    let call = flights.run("k", |_| async { Ok::<_, io::Error>(1) }).start();
    until(|| is_waited_for(&flights, "k")).await;
    drop(call);
    until(async || !is_waited_for(&flights, "k").await).await;
    held.unlock().unwrap();
    assert!(flights.status().await.held.is_empty());
    assert!(key_locks(&home).try_acquire(b"k").unwrap().is_some(), "nobody takes the key any more");
}
