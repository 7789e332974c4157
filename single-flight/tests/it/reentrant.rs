//! Calls from inside a work.

use std::io;

use single_flight::{RunError, SingleFlight, blocking};

use crate::{open, soon};

/// Calls the key from wherever it is.
async fn again(flights: &SingleFlight<String>, key: &str) -> String {
    match flights.run(key, |_| async { Ok::<_, io::Error>("ran".to_owned()) }).await {
        Ok(flight) => flight.value,
        Err(RunError::Reentrant { .. }) => "refused".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_call_of_the_works_own_key_is_refused_and_one_of_another_key_runs() {
    let (_home, flights) = open::<String>();
    let inner = flights.clone();
    let run = flights.run("k", |_| async move {
        let same = again(&inner, "k").await;
        let nested = inner.clone();
        let other = inner
            .run(
                "l",
                |_| async move { Ok::<_, io::Error>(format!("l ran, k in it was {}", again(&nested, "k").await)) },
            )
            .await;
        Ok::<_, io::Error>(format!("{same}; {}", other.unwrap().value))
    });
    assert_eq!(soon(run.start()).await.unwrap().value, "refused; l ran, k in it was refused");
    assert_eq!(again(&flights, "k").await, "ran", "after the work it is a call like any other");
}

#[tokio::test]
async fn within_hands_it_on_to_tasks_and_threads() {
    let (_home, flights) = open::<String>();
    let inner = flights.clone();
    let run = flights.run("k", |lease| async move {
        let (theirs, their_lease) = (inner.clone(), lease.clone());
        let task = tokio::spawn(async move {
            let run = theirs.run("k", |_| async { Ok::<_, io::Error>(String::new()) });
            matches!(run.within(&their_lease).await, Err(RunError::Reentrant { .. }))
        });
        let thread = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let run = inner.run("k", |_| async { Ok::<_, io::Error>(String::new()) });
            matches!(runtime.block_on(run.within(&lease).into_future()), Err(RunError::Reentrant { .. }))
        });
        Ok::<_, io::Error>(format!("{} {}", task.await.unwrap(), thread.await.unwrap()))
    });
    assert_eq!(soon(run.start()).await.unwrap().value, "true true");
}

#[tokio::test]
async fn another_directorys_key_is_another_key() {
    let (_home, flights) = open::<String>();
    let (_elsewhere, others) = open::<String>();
    let run = flights.run("k", |_| async move { Ok::<_, io::Error>(again(&others, "k").await) });
    assert_eq!(soon(run.start()).await.unwrap().value, "ran");
}

#[test]
fn a_blocked_thread_knows_what_it_runs() {
    let home = tempfile::tempdir().unwrap();
    let flights = blocking::SingleFlight::<bool>::open(home.path()).unwrap();
    let refused = |lease: Option<&single_flight::Lease>| {
        let mut run = flights.run("k", |_| Ok::<_, io::Error>(false));
        if let Some(lease) = lease {
            run = run.within(lease);
        }
        matches!(run.wait(), Err(RunError::Reentrant { .. }))
    };
    let same = flights.run("k", |_| Ok::<_, io::Error>(refused(None))).wait().unwrap();
    assert!(same.value);
    let thread = flights
        .run("k", |lease| {
            let handed_on = std::thread::scope(|scope| scope.spawn(|| refused(Some(lease))).join().unwrap());
            Ok::<_, io::Error>(handed_on)
        })
        .wait();
    assert!(thread.unwrap().value);
}
