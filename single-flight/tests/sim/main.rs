//! The library's own state machines in a world that a seed decides.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program speaks on its standard streams")]

mod drive;
mod happen;
mod mix;
#[path = "../model/oracle.rs"]
mod oracle;
mod pipe;
mod random;
mod storm;
mod world;

use oracle::Broken;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use world::{Figures, PATIENCE, Sim};

fn run(seed: u64, transcript: bool) -> (Sim, Option<Broken>) {
    let mut sim = Sim::new(seed, transcript);
    let mut calm = false;
    loop {
        if !calm && !sim.is_stormy() {
            calm = true;
            sim.thaw_all();
        }
        if calm && sim.oracle.calls.is_empty() && sim.rests() {
            break;
        }
        if calm && sim.now > sim.mix.until + PATIENCE {
            let broken = sim.not_ended();
            return (sim, Some(broken));
        }
        let Some(what) = sim.next() else {
            let broken = sim.not_ended();
            return (sim, Some(broken));
        };
        sim.happen(what);
        if sim.bad.is_some() {
            break;
        }
    }
    let bad = sim.bad.take();
    (sim, bad)
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut seeds, mut first, mut one, mut seconds) = (300_u64, 1_u64, None, u64::MAX);
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(|text| text.replace('_', "").parse::<u64>().ok());
        match word.as_str() {
            "--seeds" => seeds = value().expect("a number"),
            "--first" => first = value().expect("a number"),
            "--seed" => one = value(),
            "--seconds" => seconds = value().expect("a number"),
            _ => {
                eprintln!("sim: there is no argument {word:?}");
                return ExitCode::from(2);
            }
        }
    }
    if let Some(seed) = one {
        let (sim, broken) = run(seed, true);
        for line in sim.log.unwrap_or_default() {
            println!("{line}");
        }
        if let Some(broken) = broken {
            println!("{broken}");
            return ExitCode::FAILURE;
        }
        println!("seed {seed} is good: {:?}", sim.figures);
        return ExitCode::SUCCESS;
    }
    let began = Instant::now();
    let mut all = Figures::default();
    let mut done = 0;
    for seed in first..first + seeds {
        if began.elapsed() > Duration::from_secs(seconds) {
            break;
        }
        let (sim, broken) = run(seed, false);
        done += 1;
        all.failovers += sim.figures.failovers;
        all.calls += sim.figures.calls;
        all.flights += sim.figures.flights;
        all.joined += sim.figures.joined;
        all.interrupted += sim.figures.interrupted;
        all.happenings += sim.figures.happenings;
        if let Some(broken) = broken {
            println!("seed {seed}: {broken}");
            println!("to see it:\n    cargo test --profile model --test sim -- --seed {seed}");
            return ExitCode::FAILURE;
        }
    }
    println!("{done} seeds in {:.1} s: {all:?}", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
