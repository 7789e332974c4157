//! Checks the library's own state machines exhaustively, within bounds.
//!
//! ```text
//! cargo test --profile model --test model -- --ci       the sets of runs that CI visits
//! cargo test --profile model --test model -- --large    the large ones
//! cargo test --profile model --test model -- --ci --only TEXT
//!                                                       those whose name contains TEXT
//! cargo test --profile model --test model --features sabotage -- --sabotage
//!                                                       the same with one safeguard after the other switched off
//! ```
//! Without an argument, as in plain `cargo test`, the beginning of each is visited.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program speaks on its standard streams")]

mod apply;
mod arguments;
mod configurations;
mod drive;
mod explorer;
mod intern;
mod oracle;
#[cfg(feature = "sabotage")]
mod sabotage;
mod sometimes;
mod steps;
mod table;
mod world;

use arguments::Arguments;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("model: {message}");
            return ExitCode::from(2);
        }
    };
    #[cfg(feature = "sabotage")]
    {
        if let Some(name) = &arguments.off {
            return sabotage::search(name, &arguments);
        }
        if arguments.sabotage {
            return sabotage::run(&arguments);
        }
    }
    if arguments.sabotage || arguments.off.is_some() {
        eprintln!("model: safeguards can be switched off only with `--features sabotage`");
        return ExitCode::from(2);
    }
    table::run(&arguments)
}
