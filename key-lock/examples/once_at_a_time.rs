//! Four threads and one key: each works alone, in whatever order they come. Start it twice at the same moment: then eight do so.
//!
//! ```text
//! cargo run -p flight-key-lock --example once_at_a_time
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what happens by printing it")]

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use flight_key_lock::{KeyLocks, LocalDirectory};

/// The same for every process that should take part.
const DIRECTORY: &str = "flight-example-once-at-a-time";

/// What needs to be alone: here it only takes its time.
const WORK: Duration = Duration::from_millis(100);

/// Whoever waits for longer gives up. Waiting without a limit is `None`.
const LIMIT: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let directory = LocalDirectory::open(std::env::temp_dir().join(DIRECTORY))?;
    let locks = KeyLocks::new(&directory)?;
    let began = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (1..=4)
            .map(|worker| {
                let locks = &locks;
                scope.spawn(move || work(locks, worker, began).map_err(|error| error.to_string()))
            })
            .collect();
        for worker in workers {
            worker.join().map_err(|_| "a worker panicked")??;
        }
        Ok(())
    })
}

fn work(locks: &KeyLocks, worker: u32, began: Instant) -> Result<(), Box<dyn Error>> {
    let process = std::process::id();
    let Some(lock) = locks.acquire_blocking(b"report", Some(LIMIT))? else {
        println!("process {process}, worker {worker}: not within {LIMIT:?}, so not at all");
        return Ok(());
    };
    println!("process {process}, worker {worker}: alone from {:>4} ms", began.elapsed().as_millis());
    thread::sleep(WORK);
    println!("process {process}, worker {worker}: alone to   {:>4} ms", began.elapsed().as_millis());
    // Dropping it would do, and hide the error.
    lock.unlock()?;
    Ok(())
}
