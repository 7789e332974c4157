use std::pin::pin;
use std::thread;

use flight_lease::{Lease, LeaseController};
use tokio::sync::oneshot;

use crate::{completes, lease, soon, token};

#[test]
fn a_lease_knows_its_subject_and_token() {
    let (controller, lease) = lease();
    assert_eq!((lease.subject(), lease.token()), ("report", token()));
    assert_eq!((controller.subject(), controller.token()), ("report", token()));
    assert_eq!(
        format!("{lease:?}"),
        r#"Lease { subject: "report", token: FencingToken { epoch: 3, counter: 7 }, is_lost: false }"#,
    );
}

#[test]
fn it_can_go_to_any_thread() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Lease>();
    anywhere::<LeaseController>();
    fn sendable<T: Send>(_: T) {}
    let (controller, lease) = lease();
    sendable(lease.lost());
    sendable(controller.released());
}

#[test]
fn all_clones_are_lost_together_and_for_good() {
    let (controller, first) = lease();
    let second = first.clone();
    assert!(!first.is_lost() && !second.is_lost() && !controller.is_lost());
    assert!(first.check().is_ok());
    controller.lose();
    controller.lose();
    assert!(first.is_lost() && second.is_lost() && controller.is_lost());
    let later = first.clone();
    assert!(later.is_lost() && first.is_lost());
    drop(controller);
    assert!(first.is_lost(), "after the controller");
    assert!(second.check().is_err());
}

#[test]
fn lost_waits_and_then_completes_now_and_later() {
    let (controller, lease) = lease();
    let mut waiting = pin!(lease.lost());
    assert!(!completes(waiting.as_mut()));
    controller.lose();
    assert!(completes(waiting.as_mut()));
    assert!(completes(pin!(lease.lost())), "for whoever asks afterwards, at once");
}

#[test]
fn a_wait_that_was_dropped_takes_nothing_with_it() {
    let (controller, lease) = lease();
    {
        let mut dropped = pin!(lease.lost());
        assert!(!completes(dropped.as_mut()));
        controller.lose();
        // The loss is there to be taken, and this future goes without a look.
    }
    assert!(completes(pin!(lease.lost())));
}

#[test]
fn the_end_of_the_controller_is_not_a_loss() {
    let (controller, lease) = lease();
    let mut before = pin!(lease.lost());
    assert!(!completes(before.as_mut()));
    drop(controller);
    assert!(!lease.is_lost());
    assert!(lease.check().is_ok());
    assert!(!completes(before.as_mut()));
    assert!(!completes(pin!(lease.lost())));
}

#[tokio::test]
async fn the_loss_wakes_everyone_who_waits_in_tasks() {
    let (controller, lease) = lease();
    let mut waiters = Vec::new();
    for _ in 0..16 {
        let lease = lease.clone();
        let (about_to_wait, waits) = oneshot::channel();
        waiters.push(tokio::spawn(async move {
            let mut lost = pin!(lease.lost());
            assert!(!completes(lost.as_mut()));
            about_to_wait.send(()).expect("the test listens");
            lost.await;
        }));
        soon("a waiter starts", waits).await.expect("it runs");
    }
    thread::spawn(move || controller.lose()).join().expect("losing panics nowhere");
    for waiter in waiters {
        soon("a waiter hears of the loss", waiter).await.expect("it ends well");
    }
}

#[test]
fn a_plain_thread_sees_the_loss() {
    let (controller, lease) = lease();
    let (ready, started) = std::sync::mpsc::channel();
    let worker = thread::spawn(move || {
        ready.send(()).expect("the test listens");
        let begun = std::time::Instant::now();
        while !lease.is_lost() {
            assert!(begun.elapsed() < crate::DEADLINE, "the loss never showed");
            thread::yield_now();
        }
        lease.check().expect_err("lost").token()
    });
    started.recv().expect("the worker runs");
    controller.lose();
    assert_eq!(worker.join().expect("no panic"), token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_loss_is_missed_between_the_look_and_the_wait() {
    for round in 0..500 {
        let (controller, lease) = lease();
        let waiter = tokio::spawn(async move { lease.lost().await });
        let loser = tokio::task::spawn_blocking(move || controller.lose());
        soon(&format!("round {round}"), waiter).await.expect("no panic");
        loser.await.expect("no panic");
    }
}
