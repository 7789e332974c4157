//! A worker that does its job only while it is the elected one.
//!
//! `cargo run -p flight-election --example worker` starts two of them on one directory and shows the hand-over;
//! `cargo run -p flight-election --example worker -- DIRECTORY NAME` is one of them.

#![allow(clippy::print_stdout, reason = "an example shows what happens by printing it")]

use std::env;
use std::error::Error;
use std::process::Command;
use std::thread;
use std::time::Duration;

use flight_election::Election;
use flight_key_lock::LocalDirectory;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => two_workers(),
        [directory, name] => worker(directory, name),
        _ => Err("give a directory and a name, or nothing at all".into()),
    }
}

fn worker(directory: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let election = Election::new(LocalDirectory::open(directory)?);
    if election.try_campaign()?.is_none() {
        println!("{name}: another one leads; waiting");
    }
    let Some(leadership) = election.campaign_blocking(Some(Duration::from_secs(2)))? else {
        return Err("the other one leads for too long".into());
    };
    println!("{name}: elected, with epoch {}", leadership.epoch());
    for part in 1..=3 {
        // Before each deed: a person may have removed the lock file, and another may have been elected.
        if !leadership.is_current()? {
            return Err("no longer the only one".into());
        }
        println!("{name}: does part {part}, and signs it with epoch {}", leadership.epoch());
        thread::sleep(Duration::from_millis(100));
    }
    println!("{name}: resigns");
    // Last of all: the successor may begin before this returns.
    leadership.resign()?;
    Ok(())
}

fn two_workers() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let start = |name| Command::new(env::current_exe()?).arg(directory.path()).arg(name).spawn();
    let mut workers = [start("first")?, start("second")?];
    for worker in &mut workers {
        let status = worker.wait()?;
        if !status.success() {
            return Err(format!("a worker ended with {status}").into());
        }
    }
    Ok(())
}
