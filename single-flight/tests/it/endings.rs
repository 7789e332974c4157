//! Handles that are closed or dropped.

use std::io;
use std::time::Duration;

use flight_election::Election;
use flight_key_lock::LocalDirectory;
use single_flight::{RunError, SingleFlight};

use crate::{hold, is_waited_for, join, joiner, key_locks, nothing, open, soon, until};

fn election(home: &tempfile::TempDir) -> Election {
    Election::new(LocalDirectory::open(home.path()).unwrap())
}

#[tokio::test]
async fn after_a_close_pending_and_later_calls_hear_of_it() {
    let (home, flights) = open::<u32>();
    let stranger = key_locks(&home).look(b"k").unwrap().unwrap();
    let pending = flights.run("k", |_| async { Ok::<_, io::Error>(1) }).start();
    until(|| is_waited_for(&flights, "k")).await;
    let same = flights.clone();
    soon(flights.close()).await.unwrap();
    assert!(matches!(soon(pending).await, Err(RunError::Closed { .. })));
    assert!(matches!(same.run("l", |_| async { Ok::<_, io::Error>(1) }).await, Err(RunError::Closed { .. })));
    soon(same.close()).await.expect("to close twice is no mistake");
    // It was the coordinator: its lock is free when the close has returned.
    assert!(election(&home).try_campaign().unwrap().is_some());
    stranger.unlock().unwrap();
}

#[tokio::test]
async fn a_close_leaves_a_running_work_its_key_and_its_value() {
    let (home, flights) = open::<u32>();
    let other = SingleFlight::<u32>::open(home.path()).unwrap();
    let leader = hold(&flights, "k", 7).await;
    let (joined, _) = join(joiner(&other, "k")).await;
    soon(flights.close()).await.unwrap();
    let error = soon(joined).await.unwrap_err();
    assert!(matches!(error, RunError::Interrupted { token, .. } if token == leader.token), "{error:?}");
    assert!(key_locks(&home).try_is_held(b"k").unwrap(), "it holds its key still");
    let waits = other.run("k", |_| async { Ok::<_, io::Error>(8) }).start();
    until(|| is_waited_for(&other, "k")).await;
    leader.end.send(()).unwrap();
    let led = soon(leader.call).await.unwrap();
    assert_eq!((led.value, led.token), (7, leader.token));
    let next = soon(waits).await.unwrap();
    assert_eq!((next.value, next.joined), (8, false));
}

#[tokio::test]
async fn the_end_of_the_last_handle_frees_the_term_and_lets_running_works_land() {
    let (home, flights) = open::<u32>();
    let leader = hold(&flights, "k", 7).await;
    let (call, end) = (leader.call, leader.end);
    drop(flights);
    // The call itself holds the handle.
    assert!(election(&home).try_campaign().unwrap().is_none());
    end.send(()).unwrap();
    assert_eq!(soon(call).await.unwrap().value, 7);
    let elected = election(&home).campaign_for(crate::DEADLINE).await.unwrap();
    assert!(elected.is_some(), "somebody else can be the coordinator");
}

#[tokio::test]
async fn a_directory_can_be_opened_again_after_its_end() {
    let home = tempfile::tempdir().unwrap();
    let mut last = None;
    for _ in 0..50 {
        let flights = SingleFlight::<()>::open(home.path()).unwrap();
        let token = soon(flights.run("k", nothing).start()).await.unwrap().token;
        assert!(last < Some(token));
        last = Some(token);
        soon(flights.close()).await.unwrap();
    }
}

#[tokio::test]
async fn a_close_that_meets_a_new_handle_ends_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let mut flights = SingleFlight::<()>::open(home.path()).unwrap();
    for _ in 0..50 {
        soon(flights.run("k", nothing).start()).await.unwrap();
        let place = home.path().to_owned();
        let opened = std::thread::spawn(move || SingleFlight::<()>::open(place).unwrap());
        soon(flights.close()).await.unwrap();
        flights = opened.join().unwrap();
    }
}

#[tokio::test]
async fn a_close_with_a_limit_needs_none_when_all_is_acknowledged() {
    let (_home, flights) = open::<()>();
    flights.run("k", nothing).await.unwrap();
    soon(flights.close_timeout(Duration::from_secs(5))).await.unwrap();
}

#[test]
fn a_call_outside_a_runtime_is_refused() {
    let (_home, flights) = open::<()>();
    let call = flights.run("k", nothing).start();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = std::pin::pin!(call).poll(&mut context);
    assert!(matches!(polled, std::task::Poll::Ready(Err(RunError::NoRuntime { .. }))));
}
