//! Checks the library's own state machines exhaustively, within bounds.

mod apply;
mod configurations;
mod drive;
mod explorer;
mod intern;
mod oracle;
mod sometimes;
mod steps;
mod world;

use std::time::{Duration, Instant};

fn main() {
    let only = std::env::args().nth(1);
    let most = std::env::args().nth(2).map_or(usize::MAX, |text| text.parse().expect("a number"));
    for configuration in configurations::all() {
        if only.as_ref().is_some_and(|only| !configuration.name.contains(only.as_str())) {
            continue;
        }
        let until = Instant::now() + Duration::from_secs(170);
        let report = std::thread::spawn(move || explorer::explore(configuration.name, &configuration.limits, most, until))
            .join()
            .expect("no panic");
        println!(
            "{:40} {:>10} states {:>11} transitions depth {:>3} {:>6.1} s {:>5.2} µs{} {:b}",
            report.name,
            report.states,
            report.transitions,
            report.depth,
            report.took.as_secs_f64(),
            report.took.as_secs_f64() * 1e6 / report.transitions as f64,
            if report.complete { "" } else { " CUT" },
            report.noticed,
        );
        if let Some(failure) = report.failure {
            println!("  FAILS after {} steps: {}", failure.steps, failure.broken);
            let path = format!("/tmp/proof-scratch/fail-{}.txt", configuration.name.replace([' ', ':', ','], "_"));
            std::fs::write(path, failure.transcript.join("\n")).expect("it writes");
        }
    }
}
