#![doc = include_str!("../README.md")]

mod args;
mod ask;
mod command;
mod elect;
mod exit;
mod follow;
mod lead;
mod lineage;
mod lock;
mod output;
mod platform;
mod post;
mod run;
mod spool;
mod status;
mod waiting;

use std::io::{self, Write as _};
use std::process;

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Command, Line};
use crate::exit::Failed;
use crate::output::say;

fn main() {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(told) => {
            let code = if told.use_stderr() { exit::USAGE } else { 0 };
            drop(told.print());
            process::exit(code);
        }
    };
    let code = dispatch(line.command).unwrap_or_else(|failed| {
        say(&failed.text);
        failed.code
    });
    // Not by returning: threads that wait for a slow reader or a lock are not waited for.
    process::exit(code);
}

fn dispatch(command: Command) -> Result<i32, Failed> {
    match command {
        Command::Run(args) => block_on(run::run(args)),
        Command::Lock(args) => block_on(lock::lock(args)),
        Command::Elect(args) => block_on(elect::elect(args)),
        Command::Status(args) => block_on(status::status(args)),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Line::command(), "flight", &mut text);
            print(&text)
        }
        Command::Man => {
            let mut text = Vec::new();
            manual(&mut text).map_err(Failed::unusable)?;
            print(&text)
        }
        Command::Drain => {
            platform::drain();
            Ok(0)
        }
    }
}

fn block_on(future: impl Future<Output = Result<i32, Failed>>) -> Result<i32, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(Failed::unusable)?;
    let done = runtime.block_on(future);
    // Dropped, it would wait for a command that is being stopped.
    runtime.shutdown_background();
    done
}

/// The page of the command, and those of its subcommands, one after the other.
fn manual(text: &mut Vec<u8>) -> io::Result<()> {
    let mut line = Line::command();
    line.build();
    clap_mangen::Man::new(line.clone()).render(text)?;
    for subcommand in
        line.get_subcommands().filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help")
    {
        clap_mangen::Man::new(subcommand.clone()).render(text)?;
    }
    Ok(())
}

fn print(text: &[u8]) -> Result<i32, Failed> {
    match io::stdout().write_all(text).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failed::new(exit::OUTPUT, format_args!("cannot write to standard output: {error}")))
        }
        _ => Ok(0),
    }
}
