//! `cargo xtask e2e`: the tests that start real processes and kill them.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::step::Step;

/// As long as the slowest machine may take to build the release and to run every scenario.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Given to the test binary unless the caller names them: the scenarios print what happened, and each wants the machine for
/// itself, since they stop processes and measure.
const DEFAULTS: [(&str, &str); 2] = [("--nocapture", "--nocapture"), ("--test-threads", "--test-threads=1")];

pub(crate) fn run(root: &Path, args: &[OsString]) -> Result<(), String> {
    step(args).run(root)
}

/// The call of the test binary.
///
/// It names no package, so that cargo picks the same features of all dependencies as for the examples, and builds them once.
/// The target has `test = false`: a plain `cargo test` does not run it.
pub(crate) fn step(args: &[OsString]) -> Step {
    let mut line: Vec<OsString> = ["test", "--release", "--test", "e2e", "--"].map(OsString::from).to_vec();
    for (option, default) in DEFAULTS {
        let named = |arg: &OsString| arg.to_string_lossy().starts_with(option);
        if !args.iter().any(named) {
            line.push(default.into());
        }
    }
    line.extend_from_slice(args);
    Step::cargo("e2e", LIMIT, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        step(&args).command_line()
    }

    #[test]
    fn arguments_go_to_the_test_binary() {
        assert_eq!(
            line(&["killed", "--exact"]),
            "cargo test --release --test e2e -- --nocapture --test-threads=1 killed --exact",
        );
    }

    #[test]
    fn what_the_caller_names_is_not_given_twice() {
        // The test harness refuses an option that comes twice.
        assert_eq!(line(&["--test-threads", "4"]), "cargo test --release --test e2e -- --nocapture --test-threads 4",);
        assert_eq!(line(&["--nocapture"]), "cargo test --release --test e2e -- --test-threads=1 --nocapture",);
    }
}
