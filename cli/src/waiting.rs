//! What a caller that waits is told: once, after a second.

use std::fmt;
use std::time::Duration;

use single_flight::{FlightPhase, Status, StatusReport};

use crate::command::{quoted, shortened};

/// After so long a wait is announced.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// How often a spinner turns.
pub(crate) const TURN: Duration = Duration::from_millis(120);

/// A duration for people.
pub(crate) struct For(pub(crate) Duration);

impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0..60 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3600, seconds / 60 % 60),
        }
    }
}

/// Who runs it.
pub(crate) fn leader(pid: u32, label: &str, since: Duration) -> String {
    format!("process {pid} ({}) has been running it for {}", shortened(label, 120), For(since))
}

/// What a call waits for that has joined nothing, as far as it can be known.
pub(crate) fn describe(status: &Status, key: &str) -> String {
    match (&status.report, status.pid) {
        (Some(report), _) => held(report, key),
        (None, Some(pid)) => format!("the coordinator, process {pid}, {}", status.state),
        (None, None) => format!("the coordinator {}", status.state),
    }
}

/// Who holds a key's lock, as far as the coordinator knows.
pub(crate) fn held(report: &StatusReport, key: &str) -> String {
    let Some(flight) = report.flights.iter().find(|flight| flight.key == key) else {
        return UNKNOWN.to_owned();
    };
    let told = leader(flight.pid, &flight.label, Duration::from_millis(flight.age_ms));
    match flight.phase {
        FlightPhase::Orphaned => format!("{told}, and is not connected now; its lock is held"),
        _ => told,
    }
}

/// Said of a lock of which the coordinator knows nothing.
pub(crate) const UNKNOWN: &str = "its lock is held by a process that has not said what it runs: a command whose `flight` was killed, or one of \
                                  `flight lock`";

/// The line that announces it.
pub(crate) fn announcement(key: &str, told: &str) -> String {
    format!("waiting for {}: {told}", quoted(key))
}
