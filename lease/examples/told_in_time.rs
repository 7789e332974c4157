//! A worker that stops as soon as its lease is lost, and one that ends before.
//!
//! `cargo run -p flight-lease --example told_in_time`

#![allow(clippy::print_stdout, reason = "an example shows what happens by printing it")]

use std::error::Error;

use flight_fencing::{Epoch, TokenSource};
use flight_lease::{Lease, LeaseController, LeaseLost};
use tokio::sync::mpsc;

/// Works through the jobs that come in, and returns how many it did, unless the lease is lost on the way.
async fn work(lease: Lease, mut jobs: mpsc::Receiver<&str>) -> Result<usize, LeaseLost> {
    let mut done = 0;
    loop {
        let job = tokio::select! {
            // Lost first: with both ready, a holder that is no longer alone must not begin another job.
            biased;
            () = lease.lost() => {
                println!("{}: told that the lease is lost after {done} jobs", lease.token());
                return Err(LeaseLost::new(lease.subject(), lease.token()));
            }
            job = jobs.recv() => job,
        };
        let Some(job) = job else { return Ok(done) };
        // The token goes along with what the job writes, so that the store can refuse a holder that was paused right here.
        println!("{}: {job}", lease.token());
        done += 1;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut tokens = TokenSource::new(Epoch::new(1));

    let (controller, lease) = LeaseController::new("jobs", tokens.mint()?);
    let (queue, jobs) = mpsc::channel(8);
    let worker = tokio::spawn(work(lease, jobs));
    queue.send("sweep the floor").await?;
    queue.reserve_many(8).await?; // all eight places are free: the worker has taken the job
    controller.lose();
    let lost = worker.await?.expect_err("the queue is open: only the loss ends it");
    println!("worker 1: {lost}");
    controller.released().await;

    let (controller, lease) = LeaseController::new("jobs", tokens.mint()?);
    let (queue, jobs) = mpsc::channel(8);
    let worker = tokio::spawn(work(lease, jobs));
    queue.send("wash the windows").await?;
    drop(queue);
    controller.released().await; // the last clone went with the worker
    println!("worker 2: did {} job, and gave its lease back", worker.await??);
    Ok(())
}
