//! The library as a program meets it, in one process.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod blocking;
mod cancel;
mod codecs;
mod endings;
#[cfg(unix)]
mod fork;
mod keys;
mod leases;
mod outcomes;
mod reentrant;
mod sharing;
mod status;
mod waiting;

use std::io;
use std::time::{Duration, Instant};

use flight_key_lock::{KeyLocks, LocalDirectory};
use serde::Serialize;
use serde::de::DeserializeOwned;
use single_flight::{Call, FencingToken, Joined, Lease, Run, SingleFlight};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Long enough for any machine. Whoever reaches it has failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// A directory of its own, and a handle on it.
fn open<T: Serialize + DeserializeOwned + Send + 'static>() -> (TempDir, SingleFlight<T>) {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::open(home.path()).unwrap();
    (home, flights)
}

/// A call whose work holds until it is told to end.
struct Held<T> {
    call: Call<T>,
    token: FencingToken,
    end: oneshot::Sender<()>,
}

/// Starts a call whose work returns `value` when it is told to, and waits until it runs.
async fn hold<T: Send + 'static>(flights: &SingleFlight<T>, key: &str, value: T) -> Held<T> {
    hold_with(flights, key, async move |_| Ok::<T, io::Error>(value)).await
}

/// The same with any end of the work.
async fn hold_with<T, W, F, E>(flights: &SingleFlight<T>, key: &str, work: W) -> Held<T>
where
    T: Send + 'static,
    W: FnOnce(Lease) -> F + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    let (begun, begins) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let call = flights
        .run(key, |lease| async move {
            begun.send(lease.token()).unwrap();
            // An end that was dropped is an end, too.
            drop(ended.await);
            work(lease).await
        })
        .start();
    let token = soon(begins).await.unwrap();
    Held { call, token, end }
}

/// Starts a call, and waits until it has joined a flight.
async fn join<T: Send + 'static>(run: Run<T>) -> (Call<T>, Joined) {
    let (tell, heard) = oneshot::channel();
    let mut call = run.on_join(move |joined| tell.send(joined.clone()).unwrap()).start();
    // `on_join` runs where the call is polled.
    let joined = tokio::select! {
        joined = soon(heard) => joined.unwrap(),
        _ = &mut call => panic!("the call ended before it joined"),
    };
    (call, joined)
}

/// A call whose own work would be a mistake.
fn joiner<T: Send + 'static>(flights: &SingleFlight<T>, key: &str) -> Run<T> {
    flights.run(key, |_lease| async { Err("this call should have joined".to_owned()) })
}

/// The future's output, or a failure after the deadline.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("something that does not come")
}

/// Looks again and again until it is so.
async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < DEADLINE, "something that does not become so");
        // tidy: a pause between two looks, not a wait for anything.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Whether the status shows somebody who waits for the key, with nothing to join.
async fn is_waited_for<T>(flights: &SingleFlight<T>, key: &str) -> bool {
    let report = flights.status().await.report;
    report.is_some_and(|report| report.waiting.iter().any(|waiting| waiting.key == key))
}

/// The key locks of the directory, as another program has them.
fn key_locks(home: &TempDir) -> KeyLocks {
    KeyLocks::new(&LocalDirectory::open(home.path()).unwrap()).unwrap()
}

/// A value that says only that the work ran.
async fn nothing(_: Lease) -> io::Result<()> {
    Ok(())
}
