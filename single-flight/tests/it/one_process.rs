//! One process: several handles and callers share one flight.

use single_flight::{RunError, SingleFlight};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::oneshot;

#[tokio::test]
async fn callers_of_one_key_share_the_flight() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<u32>::open(home.path().join("f")).unwrap();
    let (go, gate) = oneshot::channel::<()>();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let leader = flights
        .run("k", move |_lease| async move {
            gate.await.unwrap();
            Ok::<_, io::Error>(counted.fetch_add(1, Ordering::SeqCst) + 7)
        })
        .start();
    let (joined, heard) = oneshot::channel();
    let second = flights.clone();
    let joiner = tokio::spawn(async move {
        second
            .run("k", |_lease| async { Ok::<_, io::Error>(0) })
            .on_join(move |flight| joined.send(flight.clone()).unwrap())
            .await
    });
    let flight = heard.await.unwrap();
    assert_eq!(flight.pid, std::process::id());
    go.send(()).unwrap();
    let (led, joined) = (leader.await.unwrap(), joiner.await.unwrap().unwrap());
    assert_eq!((led.value, led.joined), (7, false));
    assert_eq!((joined.value, joined.joined, joined.token), (7, true, led.token));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let next = flights.run("k", |_lease| async { Ok::<_, io::Error>(1) }).await.unwrap();
    assert!(!next.joined && next.token > led.token && next.value == 1);
    flights.close().await.unwrap();
    let closed = flights.run("k", |_lease| async { Ok::<_, io::Error>(1) }).await;
    assert!(matches!(closed, Err(RunError::Closed { .. })));
}
