//! Switches off one safeguard after the other, and wants each to be missed.
//!
//! A switch is for a whole process, so the program runs itself once for each safeguard.

use crate::arguments::Arguments;
use crate::configurations;
use crate::table;
use single_flight::machines::{Safeguard, switch_off};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// What a search prints before what it found.
const FOUND: &str = "found: ";

fn named(name: &str) -> Option<Safeguard> {
    Safeguard::ALL.into_iter().find(|safeguard| format!("{safeguard:?}") == name)
}

/// Switches one safeguard off, and looks for a run that breaks a promise.
pub(crate) fn search(name: &str, arguments: &Arguments) -> ExitCode {
    let Some(safeguard) = named(name) else {
        eprintln!("model: there is no safeguard {name:?}");
        return ExitCode::from(2);
    };
    switch_off(Some(safeguard));
    let until = Instant::now() + arguments.time;
    for configuration in configurations::for_sabotage(arguments.only.as_deref()) {
        let report = table::explore(configuration, arguments.most, until);
        if let Some(failure) = report.failure {
            println!("{FOUND}{} steps | {} | {}", failure.steps, report.name, failure.broken);
            if arguments.transcript {
                for line in failure.transcript {
                    println!("{line}");
                }
            }
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let program = std::env::current_exe().expect("a running program has a path");
    let mut survived = 0;
    for safeguard in Safeguard::ALL {
        let name = format!("{safeguard:?}");
        let most = arguments.most.to_string();
        let mut command = Command::new(&program);
        command.args(["--off", &name, "--no-transcript", "--most", &most]);
        if let Some(only) = &arguments.only {
            command.args(["--only", only]);
        }
        let output = command.output().expect("the program runs again");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        match printed.lines().find_map(|line| line.strip_prefix(FOUND)) {
            Some(found) => println!("{name:26} {found}"),
            None => {
                survived += 1;
                println!("{name:26} NOT MISSED {}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
    if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
