#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks on its standard streams")]

mod ci;
mod e2e;
mod examples;
mod model;
mod step;
mod tidy;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                  every check, in order; stops at the first one that fails
  e2e [ARGS...]       the tests with real processes; ARGS go to the test binary (part of a test's name, --list, ...)
  model [ARGS...]     every interleaving of the state machines, within bounds; --large for more of them
  sabotage [ARGS...]  the same with one safeguard after the other switched off: each must be noticed
  tidy                layout, names, links and white space of the repository's files
  help                this text
";

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let command = args.next();
    let rest: Vec<OsString> = args.collect();
    let root = workspace_root();
    let outcome = match (command.as_ref().and_then(|name| name.to_str()), rest.as_slice()) {
        (Some("ci"), []) => ci::run(&root),
        (Some("e2e"), args) => e2e::run(&root, args),
        (Some("model"), args) => model::run(&root, args),
        (Some("sabotage"), args) => model::sabotage(&root, args),
        (Some("tidy"), []) => tidy::run(&root),
        (Some("help" | "--help" | "-h"), _) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        (Some(known @ ("ci" | "tidy")), _) => {
            return misused(&format!("{known} takes no arguments"));
        }
        (Some(unknown), _) => return misused(&format!("there is no command {unknown:?}")),
        (None, _) => return misused("a command is missing"),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Wrong usage has a status of its own, so that a script can tell it from a check that failed.
fn misused(what: &str) -> ExitCode {
    eprintln!("xtask: {what}\n\n{USAGE}");
    ExitCode::from(2)
}

/// The folder above this package. Cargo says at run time where the package is, which stays right when the built binary is
/// shared between clones; the folder at the time of the build serves a binary that is called without cargo.
fn workspace_root() -> PathBuf {
    let package =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}
