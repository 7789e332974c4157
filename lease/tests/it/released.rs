use std::pin::pin;
use std::thread;

use crate::{completes, lease, soon};

#[test]
fn released_waits_for_the_last_clone() {
    let (controller, first) = lease();
    let second = first.clone();
    let mut released = pin!(controller.released());
    assert!(!completes(released.as_mut()));
    drop(first);
    assert!(!completes(released.as_mut()));
    assert!(!controller.is_released());
    drop(second);
    assert!(completes(released.as_mut()));
    assert!(controller.is_released());
    assert!(completes(pin!(controller.released())), "for whoever asks afterwards, at once");
}

#[test]
fn a_lost_lease_is_held_until_it_is_dropped() {
    let (controller, lease) = lease();
    controller.lose();
    assert!(!controller.is_released());
    drop(lease);
    assert!(controller.is_released());
    controller.lose();
    assert!(controller.is_lost(), "losing what was given back is allowed, and remembered");
}

#[test]
fn waiting_for_the_loss_holds_the_lease_no_longer_than_the_lease_itself() {
    let (controller, lease) = lease();
    {
        let mut lost = pin!(lease.lost());
        assert!(!completes(lost.as_mut()));
    }
    drop(lease);
    assert!(controller.is_released());
}

#[test]
fn a_wait_for_the_release_that_was_dropped_takes_nothing_with_it() {
    let (controller, lease) = lease();
    {
        let mut dropped = pin!(controller.released());
        assert!(!completes(dropped.as_mut()));
        drop(lease);
    }
    assert!(completes(pin!(controller.released())));
}

#[tokio::test]
async fn a_thread_that_outlives_its_aborted_task_keeps_the_lease() {
    let (controller, lease) = lease();
    let (let_go, wait) = std::sync::mpsc::channel::<()>();
    let (started, running) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let clone = lease.clone();
        let work = tokio::task::spawn_blocking(move || {
            started.send(()).expect("the test listens");
            wait.recv().expect("the test lets go");
            drop(clone);
        });
        work.await.expect("no panic");
        drop(lease);
    });
    soon("the blocking work starts", running).await.expect("it runs");
    task.abort();
    assert!(soon("the task ends", task).await.expect_err("aborted").is_cancelled());
    assert!(!controller.is_released(), "the thread still works");
    let_go.send(()).expect("the thread waits");
    soon("the thread drops its clone", controller.released()).await;
}

#[tokio::test]
async fn the_last_clone_may_go_in_any_thread() {
    let (controller, lease) = lease();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let clone = lease.clone();
            thread::spawn(move || drop(clone))
        })
        .collect();
    drop(lease);
    soon("all clones go", controller.released()).await;
    for thread in threads {
        thread.join().expect("no panic");
    }
}
