//! Callers that share a flight.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use single_flight::{Options, SingleFlight};

use crate::{hold, join, joiner, nothing, open, soon};

/// Compiles, or not.
fn is_send_and_unpin<T: Send + Unpin>(_: &T) {}

#[tokio::test]
async fn a_joiner_gets_the_leaders_value_and_the_next_call_a_flight_of_its_own() {
    let (_home, flights) = open::<u32>();
    let leader = hold(&flights, "k", 7).await;
    is_send_and_unpin(&leader.call);
    let (joined, told) = join(joiner(&flights, "k")).await;
    assert_eq!((told.pid, told.token), (std::process::id(), leader.token));
    leader.end.send(()).unwrap();
    let (led, joined) = (soon(leader.call).await.unwrap(), soon(joined).await.unwrap());
    assert_eq!((led.value, led.joined, led.token), (7, false, leader.token));
    assert_eq!((joined.value, joined.joined, joined.token), (7, true, leader.token));
    let next = flights.run("k", |_| async { Ok::<_, io::Error>(8) }).await.unwrap();
    assert!(!next.joined && next.token > led.token && next.value == 8, "a flight is not a cache");
}

#[tokio::test]
async fn a_thousand_callers_join_one_flight() {
    let (_home, flights) = open::<String>();
    let leader = hold(&flights, "k", "once".to_owned()).await;
    let runs = Arc::new(AtomicU32::new(0));
    let mut calls = Vec::new();
    for _ in 0..1000 {
        let runs = runs.clone();
        let call = flights.run("k", move |_| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<_, io::Error>("again".to_owned())
        });
        calls.push(call.start());
    }
    leader.end.send(()).unwrap();
    for call in calls {
        let flight = soon(call).await.unwrap();
        assert_eq!((flight.value.as_str(), flight.joined, flight.token), ("once", true, leader.token));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_call_does_nothing_before_it_is_started() {
    let (home, flights) = open::<()>();
    drop(flights.run("k", nothing));
    assert!(flights.status().await.report.is_none() && !home.path().join("flight.epoch").exists());
}

#[tokio::test]
async fn works_of_different_keys_run_beside_each_other() {
    let (_home, flights) = open::<u32>();
    let one = hold(&flights, "one", 1).await;
    let other = hold(&flights, "other", 2).await;
    other.end.send(()).unwrap();
    assert_eq!(soon(other.call).await.unwrap().value, 2);
    one.end.send(()).unwrap();
    assert_eq!(soon(one.call).await.unwrap().value, 1);
}

#[tokio::test]
async fn handles_on_one_directory_share_whatever_path_they_were_opened_by() {
    let (home, flights) = open::<u32>();
    let options = Options::new().label("second");
    let second = SingleFlight::<u32>::open_with(home.path().join("."), options).unwrap();
    let leader = hold(&second, "k", 1).await;
    let (joined, told) = join(joiner(&flights, "k")).await;
    assert_eq!(told.label, "second");
    // What one handle closes, the other keeps.
    flights.close().await.unwrap();
    assert!(soon(joined).await.is_err());
    leader.end.send(()).unwrap();
    assert_eq!(soon(leader.call).await.unwrap().value, 1);
}

#[tokio::test]
async fn a_runtime_that_is_blocked_stops_nobody_else() {
    let (_home, flights) = open::<u32>();
    let blocked = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let theirs = flights.clone();
    let leader = soon(blocked.spawn(async move { hold(&theirs, "k", 1).await })).await.unwrap();
    let (go_on, stuck) = std::sync::mpsc::channel::<()>();
    drop(blocked.spawn(async move { stuck.recv() }));
    leader.end.send(()).unwrap();
    // The only thread that could run the leader's work is stuck. It is this process that connects all the others.
    let flight = soon(flights.run("l", |_| async { Ok::<_, io::Error>(2) }).start()).await.unwrap();
    assert_eq!(flight.value, 2);
    let (joined, told) = join(joiner(&flights, "k")).await;
    assert_eq!(told.token, leader.token);
    go_on.send(()).unwrap();
    assert_eq!(soon(joined).await.unwrap().value, 1);
    assert_eq!(soon(leader.call).await.unwrap().value, 1);
    blocked.shutdown_background();
}
