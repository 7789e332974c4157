//! `cargo xtask model` and `cargo xtask sabotage`: every interleaving of the library's own state machines, within bounds.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::step::Step;

/// The large sets of runs take hours on a small machine.
const LIMIT: Duration = Duration::from_secs(8 * 60 * 60);

/// Every set of runs to its end: minutes.
const WHOLE: &str = "--ci";

pub(crate) fn run(root: &Path, args: &[OsString]) -> Result<(), String> {
    step(args).run(root)
}

/// The call of the explorer. It shares the optimised dependencies of e2e and the examples, so it names no package.
fn step(args: &[OsString]) -> Step {
    let mut line: Vec<OsString> = ["test", "--release", "--test", "model", "--"].map(OsString::from).to_vec();
    if !args.iter().any(|arg| arg == "--large" || arg == WHOLE) {
        line.push(WHOLE.into());
    }
    line.extend_from_slice(args);
    Step::cargo("model", LIMIT, line)
}

/// What ci visits: the nearest states of every set of runs, about a million.
pub(crate) fn beginning() -> Step {
    Step::cargo("model", LIMIT, ["test", "--release", "--test", "model"].map(OsString::from).to_vec())
}

/// The same with one safeguard after the other switched off. The switches exist only with debug assertions, so it has a profile of
/// its own.
pub(crate) fn sabotage(root: &Path, args: &[OsString]) -> Result<(), String> {
    sabotage_step(args).run(root)
}

fn sabotage_step(args: &[OsString]) -> Step {
    let line = "test --profile model --package single-flight --test model --features sabotage -- --sabotage";
    let mut line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    line.extend_from_slice(args);
    Step::cargo("sabotage", LIMIT, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_sets_are_visited_unless_the_large_ones_are_asked_for() {
        assert_eq!(step(&[]).command_line(), "cargo test --release --test model -- --ci");
        assert_eq!(step(&["--large".into()]).command_line(), "cargo test --release --test model -- --large");
    }

    #[test]
    fn sabotage_needs_the_switches() {
        let line = sabotage_step(&[]).command_line();
        assert!(line.contains("--profile model") && line.contains("--features sabotage"), "{line}");
    }
}
