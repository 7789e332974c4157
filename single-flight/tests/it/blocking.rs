//! Programs without an async runtime.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use single_flight::blocking::SingleFlight;
use single_flight::{Failure, RunError};

use crate::DEADLINE;

#[test]
fn the_work_runs_here_and_borrows_what_it_likes() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<usize>::open(home.path()).unwrap();
    let (words, counted) = (["one", "two"], Rc::new(Cell::new(0)));
    let thread = std::thread::current().id();
    let flight = flights
        .run("k", |lease| {
            assert_eq!(std::thread::current().id(), thread);
            assert!(lease.check().is_ok());
            counted.set(words.len());
            Ok::<_, io::Error>(counted.get())
        })
        .wait()
        .unwrap();
    assert_eq!((flight.value, flight.joined, counted.get()), (2, false, 2));
    assert_eq!(flights.status().pid, Some(std::process::id()));
    flights.close().unwrap();
    assert!(matches!(flights.run("k", |_| Ok::<_, io::Error>(0)).wait(), Err(RunError::Closed { .. })));
}

/// Runs `leader` on a thread of its own with a work that ends when it is told to.
fn with_leader<T>(
    flights: &SingleFlight<u32>,
    end: fn() -> Result<u32, String>,
    then: impl FnOnce(&dyn Fn()) -> T,
) -> (std::thread::Result<Result<u32, RunError>>, T) {
    let (begin, begun) = mpsc::channel();
    let (finish, finished) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let leader = scope.spawn(move || {
            let work = |_: &single_flight::Lease| {
                begin.send(()).unwrap();
                finished.recv_timeout(DEADLINE).unwrap();
                end()
            };
            flights.run("k", work).wait().map(|flight| flight.value)
        });
        begun.recv_timeout(DEADLINE).unwrap();
        let then = then(&|| finish.send(()).unwrap());
        (leader.join(), then)
    })
}

#[test]
fn threads_and_tasks_share_a_flight() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<u32>::open(home.path()).unwrap();
    let tasks = single_flight::SingleFlight::<u32>::open(home.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (led, joined) = with_leader(
        &flights,
        || Ok(7),
        |finish| {
            let (call, told) = runtime.block_on(crate::join(crate::joiner(&tasks, "k")));
            assert_eq!(told.pid, std::process::id());
            let mut heard = false;
            let joined = flights
                .run("k", |_| Err("this call should have joined"))
                .on_join(|_| {
                    heard = true;
                    finish();
                })
                .wait()
                .unwrap();
            assert!(heard && joined.joined);
            (joined.value, runtime.block_on(crate::soon(call)).unwrap().value)
        },
    );
    assert_eq!((led.unwrap().unwrap(), joined), (7, (7, 7)));
}

#[test]
fn a_thread_joins_the_flight_of_a_task() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<u32>::open(home.path()).unwrap();
    let tasks = single_flight::SingleFlight::<u32>::open(home.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let leader = runtime.block_on(crate::hold(&tasks, "k", 7));
    let end = Cell::new(Some(leader.end));
    let joined = flights
        .run("k", |_| Err("this call should have joined"))
        .on_join(|_| end.take().unwrap().send(()).unwrap())
        .wait()
        .unwrap();
    assert_eq!((joined.value, joined.joined, joined.token), (7, true, leader.token));
}

#[test]
fn a_panic_goes_through_and_the_joiners_hear_of_it() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<u32>::open(home.path()).unwrap();
    let (led, joined) = with_leader(
        &flights,
        || panic!("on purpose"),
        |finish| flights.run("k", |_| Err("this call should have joined")).on_join(|_| finish()).wait(),
    );
    assert_eq!(*led.unwrap_err().downcast_ref::<&str>().unwrap(), "on purpose");
    let error = joined.unwrap_err();
    assert!(
        matches!(&error, RunError::Failed { failure, .. } if failure.name == Failure::PANIC && failure.message == "on purpose"),
        "{error:?}"
    );
    assert_eq!(flights.run("k", |_| Ok::<_, io::Error>(1)).wait().unwrap().value, 1);
}

#[test]
fn an_error_comes_back_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<u32>::open(home.path()).unwrap();
    let error = flights.run("k", |_| Err(io::Error::from_raw_os_error(2))).wait().unwrap_err();
    let RunError::Work { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.downcast_ref::<io::Error>().unwrap().raw_os_error(), Some(2));
}

#[test]
fn a_limit_ends_the_wait() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<u32>::open(home.path()).unwrap();
    let (led, error) = with_leader(
        &flights,
        || Ok(7),
        |finish| {
            let run = flights.run("k", |_| Err("this call should have waited"));
            let error = run.wait_timeout(Duration::from_millis(20)).wait().unwrap_err();
            finish();
            error
        },
    );
    assert!(matches!(error, RunError::TimedOut { .. }), "{error:?}");
    assert_eq!(led.unwrap().unwrap(), 7);
}

#[test]
fn a_panic_in_on_join_withdraws_that_call_only() {
    let home = tempfile::tempdir().unwrap();
    let flights = SingleFlight::<u32>::open(home.path()).unwrap();
    let (led, panicked) = with_leader(
        &flights,
        || Ok(7),
        |finish| {
            let run = flights.run("k", |_| Err("this call should have joined")).on_join(|_| panic!("on purpose"));
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.wait())).is_err();
            finish();
            panicked
        },
    );
    assert!(panicked);
    assert_eq!(led.unwrap().unwrap(), 7);
}
