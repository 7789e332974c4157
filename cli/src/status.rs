//! `flight status`.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use single_flight::{FlightPhase, StatusReport};

use crate::args;
use crate::ask::{Answer, ask};
use crate::command::{quoted, shortened};
use crate::exit::{self, Failed};
use crate::platform;
use crate::waiting::For;

/// How often `--watch` looks.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) async fn status(args: args::Status) -> Result<i32, Failed> {
    let path = args.directory.path()?;
    if !args.watch {
        return show(&text(&look(&path).await?, args.json)).map(|_| 0);
    }
    let mut signals = platform::listen().map_err(Failed::unusable)?;
    let clears = !args.json && io::stdout().is_terminal();
    loop {
        let text = text(&look(&path).await?, args.json);
        let text = if clears { format!("\x1b[H\x1b[2J{text}") } else { text };
        if !show(&text)? {
            return Ok(0);
        }
        tokio::select! {
            Some(received) = signals.recv() => return Ok(128 + received.signal),
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

async fn look(path: &Path) -> Result<Seen, Failed> {
    let (directory, path) = (path.display().to_string(), path.to_owned());
    // It blocks for a second when the coordinator is frozen, and a signal does not wait for that.
    let answer = tokio::task::spawn_blocking(move || ask(&path)).await.map_err(Failed::unusable)?;
    if let Answer::Failed(text) = answer {
        return Err(Failed::unusable(text));
    }
    let coordinator = Coordinator { pid: answer.pid(), state: answer.describe() };
    let report = if let Answer::Report(report) = answer { Some(report) } else { None };
    Ok(Seen { directory, coordinator, report })
}

#[derive(Debug, Serialize)]
struct Seen {
    directory: String,
    coordinator: Coordinator,
    /// `null`: there is no coordinator, or it does not answer.
    report: Option<StatusReport>,
}

#[derive(Debug, Serialize)]
struct Coordinator {
    pid: Option<u32>,
    state: String,
}

fn text(seen: &Seen, json: bool) -> String {
    let mut text = String::new();
    if json {
        return format!("{}\n", serde_json::to_string(seen).expect("text and numbers are JSON"));
    }
    let result = match &seen.report {
        Some(report) => table(&mut text, report),
        None => writeln!(text, "coordinator: {}", seen.coordinator.state),
    };
    result.expect("a String takes all that is written to it");
    text
}

fn table(text: &mut String, report: &StatusReport) -> std::fmt::Result {
    let StatusReport { pid, epoch, age_ms, connections, flights, waiting } = report;
    let since = For(Duration::from_millis(*age_ms));
    writeln!(text, "coordinator: process {pid}, epoch {epoch}, for {since}, {connections} connected")?;
    if flights.is_empty() {
        writeln!(text, "nothing is in flight")?;
    }
    for flight in flights {
        let age = For(Duration::from_millis(flight.age_ms));
        let key = quoted(&flight.key);
        writeln!(
            text,
            "{key}: token {}, process {} ({}), for {age}",
            flight.token,
            flight.pid,
            shortened(&flight.label, 120)
        )?;
        match flight.phase {
            FlightPhase::Granted => writeln!(text, "  is about to begin")?,
            FlightPhase::Running => {}
            FlightPhase::Orphaned => writeln!(text, "  its leader is not connected; its lock tells whether it lives")?,
        }
        if flight.joiners > 0 {
            writeln!(text, "  {} joined: {}", flight.joiners, numbers(&flight.joiner_pids))?;
        }
    }
    for held in waiting {
        let key = quoted(&held.key);
        writeln!(
            text,
            "{key}: {} wait ({}) for a process that holds its lock and has not said what it runs",
            held.callers,
            numbers(&held.pids)
        )?;
    }
    Ok(())
}

fn numbers(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(|pid| format!("process {pid}")).collect();
    pids.join(", ")
}

/// `false`: nobody reads any more.
fn show(text: &str) -> Result<bool, Failed> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failed::new(exit::OUTPUT, format_args!("cannot write to standard output: {error}"))),
    }
}
