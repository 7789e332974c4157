//! Explores one set of runs after the other, on several threads, and prints what came of it.

use crate::arguments::{Arguments, Set};
use crate::configurations::{self, Configuration};
use crate::explorer::{self, Report};
use crate::sometimes;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// What is visited of each set of runs when nothing else is asked for: in all about a million states, in half a minute on two cores.
const BEGINNING: usize = 50_000;

/// What a whole set must reach.
fn least(set: Set) -> usize {
    match set {
        Set::Beginning => 0,
        Set::Ci => 5_000_000,
        Set::Large => 100_000_000,
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let most = if arguments.set == Set::Beginning { BEGINNING.min(arguments.most) } else { arguments.most };
    let configurations = configurations::of(arguments.set, arguments.only.as_deref());
    if configurations.is_empty() {
        eprintln!("model: no set of runs has that name");
        return ExitCode::from(2);
    }
    println!("{:44} {:>11} {:>12} {:>5} {:>8}", "runs of", "states", "transitions", "depth", "seconds");
    // The longest first, so that the threads end together.
    let queue = Mutex::new(configurations.into_iter());
    let reports = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                while let Some(next) = { queue.lock().expect("no thread panics while it holds this").next() } {
                    let report = explore(next, most, began + arguments.time);
                    print(&report);
                    reports.lock().expect("no thread panics while it holds this").push(report);
                }
            });
        }
    });
    let reports = reports.into_inner().expect("no thread panics while it holds this");
    conclude(arguments, &reports, began)
}

/// The tables of kept values belong to a thread: a thread for each set of runs gives them back.
pub(crate) fn explore(configuration: Configuration, most: usize, until: Instant) -> Report {
    thread::scope(|scope| {
        let worker = scope.spawn(|| explorer::explore(configuration.name, &configuration.limits, most, until));
        worker.join().expect("the explorer does not panic")
    })
}

fn print(report: &Report) {
    println!(
        "{:44} {:>11} {:>12} {:>5} {:>8.1}{}",
        report.name,
        report.states,
        report.transitions,
        report.depth,
        report.took.as_secs_f64(),
        if report.complete { "" } else { "  (its beginning)" },
    );
}

fn conclude(arguments: &Arguments, reports: &[Report], began: Instant) -> ExitCode {
    let states: usize = reports.iter().map(|report| report.states).sum();
    let transitions: u64 = reports.iter().map(|report| report.transitions).sum();
    let seconds = began.elapsed().as_secs_f64();
    println!("{:44} {states:>11} {transitions:>12} {:>5} {seconds:>8.1}", "in all", "");
    let mut good = true;
    for report in reports {
        let Some(failure) = &report.failure else { continue };
        good = false;
        println!("\n{}: after {} steps, {}", report.name, failure.steps, failure.broken);
        if arguments.transcript {
            for line in &failure.transcript {
                println!("{line}");
            }
        }
        println!("to see it again:\n    cargo test --profile model --test model -- --large --only {:?}", report.name);
    }
    if arguments.only.is_none() && arguments.set != Set::Beginning {
        for what in sometimes::ALL {
            if reports.iter().all(|report| report.noticed & what.bit() == 0) {
                good = false;
                println!("no run showed {what:?}: the promises were kept for want of it");
            }
        }
        if states < least(arguments.set) {
            good = false;
            println!("{states} states are fewer than {}", least(arguments.set));
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
