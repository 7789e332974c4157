//! Campaigns that wait while another leads.

use std::time::{Duration, Instant};

use flight_election::Election;
use flight_fencing::Epoch;

use crate::process::Process;
use crate::{DEADLINE, election, win};

/// Waits for `future`, and fails the test when that takes for ever.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("nothing in {DEADLINE:?}"))
}

/// Starts a process that leads, and returns it with its epoch.
fn leader(folder: &tempfile::TempDir) -> (Process, u32) {
    let process = Process::start("leads", folder.path());
    assert_eq!(process.hear(), "campaigns");
    let epoch = process.hear_number();
    (process, epoch)
}

#[tokio::test]
async fn a_campaign_wins_when_the_leader_resigns_or_dies() {
    let (folder, election) = election();
    let (mut process, epoch) = leader(&folder);
    // It waits already when the leader ends.
    let (won, ()) = soon(async { tokio::join!(biased; election.campaign(), async { process.go_on() }) }).await;
    let leadership = won.expect("nothing is in the way");
    assert_eq!(leadership.epoch().get(), epoch + 1);
    process.finish();
    leadership.resign().expect("the lock is ours");

    let (process, epoch) = leader(&folder);
    let (won, ()) =
        soon(async { tokio::join!(biased; election.campaign_for(DEADLINE), async { process.kill() }) }).await;
    let leadership = won.expect("nothing is in the way").expect("the leader is dead");
    assert_eq!(leadership.epoch().get(), epoch + 1);
}

#[test]
fn a_blocking_campaign_wins_when_the_leader_resigns_or_dies() {
    let (folder, election) = election();
    let (mut process, epoch) = leader(&folder);
    process.go_on();
    let leadership = election.campaign_blocking(None).expect("nothing is in the way").expect("there is no limit");
    assert_eq!(leadership.epoch().get(), epoch + 1);
    process.finish();
    drop(leadership);

    let (process, epoch) = leader(&folder);
    process.kill();
    let leadership = election.campaign_blocking(Some(DEADLINE)).expect("nothing is in the way");
    assert_eq!(leadership.expect("the leader is dead").epoch().get(), epoch + 1);
}

/// That the election is free, and that nobody has won it since `epoch`.
#[track_caller]
fn assert_nobody_won_since(epoch: Epoch, election: &Election) {
    assert_eq!(win(election).epoch().get(), epoch.get() + 1);
}

#[tokio::test]
async fn a_campaign_that_was_dropped_never_wins() {
    let (_folder, election) = election();
    let leadership = win(&election);
    let epoch = leadership.epoch();
    // Dropped unpolled, dropped in its wait, aborted on a task of its own.
    drop(election.campaign());
    let limit = Duration::from_millis(20);
    tokio::time::timeout(limit, election.campaign()).await.expect_err("another leads");
    let task = tokio::spawn({
        let election = election.clone();
        async move { election.campaign().await.map(|leadership| leadership.epoch()) }
    });
    tokio::task::yield_now().await;
    task.abort();
    assert!(task.await.expect_err("it was aborted").is_cancelled());

    leadership.resign().expect("the lock is ours");
    assert_nobody_won_since(epoch, &election);
}

#[tokio::test]
async fn the_limit_of_a_campaign_ends_it() {
    let (_folder, election) = election();
    let leadership = win(&election);
    let epoch = leadership.epoch();
    let limit = Duration::from_millis(30);

    let begun = Instant::now();
    assert!(soon(election.campaign_for(limit)).await.expect("nothing is in the way").is_none());
    assert!(begun.elapsed() >= limit);
    let begun = Instant::now();
    assert!(election.campaign_blocking(Some(limit)).expect("nothing is in the way").is_none());
    assert!(begun.elapsed() >= limit);
    assert!(soon(election.campaign_for(Duration::ZERO)).await.expect("nothing is in the way").is_none());
    assert!(election.campaign_blocking(Some(Duration::ZERO)).expect("nothing is in the way").is_none());

    leadership.resign().expect("the lock is ours");
    assert_nobody_won_since(epoch, &election);
    // Without a moment to wait, but with nobody in the way.
    assert!(soon(election.campaign_for(Duration::ZERO)).await.expect("nothing is in the way").is_some());
    assert!(election.campaign_blocking(Some(Duration::ZERO)).expect("nothing is in the way").is_some());
    assert!(soon(election.campaign_for(Duration::MAX)).await.expect("nothing is in the way").is_some());
}
