//! Limits on waiting, and what they say was waited for.

use std::io;
use std::time::Duration;

use single_flight::{RunError, WaitingFor};

use crate::{hold, join, joiner, key_locks, open, soon};

const LIMIT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_limit_on_a_joined_flight_names_the_leader_and_changes_nothing_for_others() {
    let (_home, flights) = open::<u32>();
    let leader = hold(&flights, "k", 7).await;
    let (stays, _) = join(joiner(&flights, "k")).await;
    let error = soon(joiner(&flights, "k").wait_timeout(LIMIT).start()).await.unwrap_err();
    let RunError::TimedOut { waited, waiting_for: WaitingFor::Flight(flight), .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((*waited, flight.pid, flight.token), (LIMIT, std::process::id(), leader.token));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    leader.end.send(()).unwrap();
    assert_eq!(soon(leader.call).await.unwrap().value, 7);
    assert_eq!(soon(stays).await.unwrap().value, 7);
}

#[tokio::test]
async fn a_limit_does_not_bound_ones_own_work() {
    let (_home, flights) = open::<u32>();
    let run = flights.run("k", |_| async {
        // tidy: the work takes longer than the limit: that is the test.
        tokio::time::sleep(LIMIT * 4).await;
        Ok::<_, io::Error>(1)
    });
    // Its work begins at once on any machine that is not on its knees; then it may take its time.
    assert_eq!(soon(run.wait_timeout(LIMIT * 3).start()).await.unwrap().value, 1);
}

#[tokio::test]
async fn a_limit_on_a_key_that_a_stranger_holds_says_so() {
    let (home, flights) = open::<u32>();
    flights.run("other", |_| async { Ok::<_, io::Error>(1) }).await.unwrap();
    let held = key_locks(&home).look(b"k").unwrap().unwrap();
    let run = flights.run("k", |_| async { Ok::<_, io::Error>(1) });
    let error = soon(run.wait_timeout(LIMIT).start()).await.unwrap_err();
    assert!(matches!(error, RunError::TimedOut { waiting_for: WaitingFor::KeyLock, .. }), "{error:?}");
    held.unlock().unwrap();
    // It withdrew, so that the key is free for the next.
    let run = flights.run("k", |_| async { Ok::<_, io::Error>(2) });
    assert_eq!(soon(run.start()).await.unwrap().value, 2);
}

#[tokio::test]
async fn a_limit_beyond_the_clock_is_none() {
    let (_home, flights) = open::<u32>();
    let leader = hold(&flights, "k", 7).await;
    let (joined, _) = join(joiner(&flights, "k").wait_timeout(Duration::MAX)).await;
    leader.end.send(()).unwrap();
    assert_eq!(soon(joined).await.unwrap().value, 7);
}

#[tokio::test]
async fn a_panic_in_on_join_fails_that_call_only() {
    let (_home, flights) = open::<u32>();
    let leader = hold(&flights, "k", 7).await;
    let panics = tokio::spawn(joiner(&flights, "k").on_join(|_| panic!("on purpose")).start());
    assert!(soon(panics).await.unwrap_err().is_panic());
    let (stays, _) = join(joiner(&flights, "k")).await;
    leader.end.send(()).unwrap();
    assert_eq!(soon(leader.call).await.unwrap().value, 7);
    assert_eq!(soon(stays).await.unwrap().value, 7);
}
