//! What a handle tells of itself and the coordinator.

use std::io;

use single_flight::{FlightPhase, HeldWhy};

use crate::{hold, is_waited_for, join, joiner, key_locks, open, soon, until};

#[tokio::test]
async fn status_shows_flights_joiners_waiters_and_what_is_held() {
    let (home, flights) = open::<u32>();
    let before = flights.status().await;
    assert_eq!((before.pid, before.report), (None, None), "it elects nobody");

    let leader = hold(&flights, "k", 1).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    let stranger = key_locks(&home).look(b"l").unwrap().unwrap();
    let waits = flights.run("l", |_| async { Ok::<_, io::Error>(2) }).start();
    until(|| is_waited_for(&flights, "l")).await;

    let status = flights.status().await;
    let pid = std::process::id();
    assert_eq!(status.pid, Some(pid));
    assert_eq!(
        (status.held.len(), status.held[0].why, status.held[0].token),
        (1, HeldWhy::Running, Some(leader.token))
    );
    let report = status.report.unwrap();
    assert_eq!((report.pid, report.epoch, report.connections), (pid, leader.token.epoch(), 0));
    assert_eq!(report.flights.len(), 1);
    let flight = &report.flights[0];
    assert_eq!((flight.key.as_str(), flight.token, flight.phase), ("k", leader.token, FlightPhase::Running));
    assert_eq!(flight.pid, pid);
    assert_eq!((report.waiting.len(), report.waiting[0].key.as_str(), report.waiting[0].callers), (1, "l", 1));

    leader.end.send(()).unwrap();
    stranger.unlock().unwrap();
    soon(leader.call).await.unwrap();
    soon(joined).await.unwrap();
    soon(waits).await.unwrap();
    until(async || flights.status().await.held.is_empty()).await;
    let report = flights.status().await.report.unwrap();
    assert!(report.flights.is_empty() && report.waiting.is_empty());
}
