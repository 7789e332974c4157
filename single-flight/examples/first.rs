//! A report is built once, however many processes ask for it at the same time.
//!
//! ```sh
//! cargo run --example first & cargo run --example first & cargo run --example first
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what happens")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use single_flight::SingleFlight;

#[derive(Debug, Serialize, Deserialize)]
struct Report {
    entries: usize,
    built_by: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Any directory on a local disk, the same one in all processes.
    let flights = SingleFlight::<Report>::open(std::env::temp_dir().join("first-flight"))?;
    let flight = flights
        .run("report", |_lease| build())
        .on_join(|joined| println!("process {} has been building it for {:.1?}; waiting", joined.pid, joined.since))
        .wait_timeout(Duration::from_secs(60))
        .await?;
    println!("{:?} joined={} token={}", flight.value, flight.joined, flight.token);
    flights.close().await?;
    Ok(())
}

/// Takes a second, so that there is time to start another process.
async fn build() -> std::io::Result<Report> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(Report { entries: std::fs::read_dir(".")?.count(), built_by: std::process::id() })
}
