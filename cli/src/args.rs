//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use flight_key_lock::LocalDirectory;

use crate::exit::{self, Failed};

/// Callers of one key share one run of a command, on one host.
///
/// The first caller of a KEY runs CMD. All others with that KEY wait, see its output live from its beginning, and exit with its status.
/// A call after the run ended runs CMD again: nothing is cached.
#[derive(Debug, Parser)]
#[command(name = "flight", version, after_help = exit::HELP, max_term_width = 100)]
#[command(arg_required_else_help = false, subcommand_required = true)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run CMD, or share the run of it that is in progress
    ///
    /// CMD gets FLIGHT_KEY, FLIGHT_TOKEN (a number greater than that of every run of the key before it) and FLIGHT_EPOCH. TERM, INT, HUP and
    /// QUIT that are sent to the caller that runs CMD go to CMD; any other caller leaves alone.
    #[command(after_help = exit::HELP)]
    Run(Run),
    /// Run CMD while nobody else holds the lock of KEY: one at a time, and each its own
    #[command(after_help = exit::HELP)]
    Lock(Lock),
    /// Run CMD while elected among those who name NAME; the others wait and take over
    ///
    /// CMD gets FLIGHT_NAME and FLIGHT_EPOCH, a number greater than that of every term of the name before it. When the leadership is lost
    /// (somebody replaced its lock by hand) CMD gets TERM, and KILL 5 s later.
    #[command(after_help = exit::HELP)]
    Elect(Elect),
    /// Tell what runs in a directory, and who waits for what
    #[command(after_help = exit::HELP)]
    Status(Status),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Read standard input and standard error to their ends: for what a command left in the background.
    #[command(name = DRAIN, hide = true)]
    Drain,
}

/// Names the directory when the command line does not.
const VARIABLE: &str = "FLIGHT_DIR";

/// The hidden subcommand.
pub(crate) const DRAIN: &str = "__drain";

#[derive(Debug, Args)]
pub(crate) struct Directory {
    /// The directory that all callers name: local, and this user's own. Else FLIGHT_DIR of the environment
    #[arg(long = "dir", value_name = "DIR")]
    path: Option<PathBuf>,
}

impl Directory {
    pub(crate) fn path(&self) -> Result<PathBuf, Failed> {
        // A variable that is set to nothing counts as not set.
        let of_environment = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        self.path.clone().or_else(of_environment).ok_or_else(|| {
            Failed::new(
                exit::USAGE,
                "no directory: give --dir DIR or set FLIGHT_DIR. There is no default, because callers share a run only when they name \
                 the same directory, and a guess that differs between cron, a terminal and a container would quietly run things \
                 twice. Take one on a local disk that is yours, such as ~/.cache/flights or /var/lib/APP/flights",
            )
        })
    }

    pub(crate) fn open(&self) -> Result<LocalDirectory, Failed> {
        LocalDirectory::open(self.path()?).map_err(Failed::unusable)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) directory: Directory,
    /// Give up after so long with 75, if CMD has not begun here and the run of another has not ended. It never cuts one's own CMD
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Do not tell what is waited for
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the result as one line of JSON on standard error, after everything else
    #[arg(long)]
    pub(crate) json: bool,
    /// What is shared: any UTF-8 text
    #[arg(value_parser = key)]
    pub(crate) key: String,
    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Lock {
    #[command(flatten)]
    pub(crate) directory: Directory,
    /// Give up after so long with 75, if the lock is not free until then
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Give up at once with 75, if the lock is busy
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Do not tell what is waited for
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// What is locked: any UTF-8 text
    #[arg(value_parser = key)]
    pub(crate) key: String,
    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Elect {
    #[command(flatten)]
    pub(crate) directory: Directory,
    /// Give up after so long with 75, if not elected until then
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Do not tell what is waited for
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// What the candidates have in common: any UTF-8 text
    #[arg(value_parser = key)]
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) directory: Directory,
    /// As one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Again each second, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
}

/// The longest limit that is taken: some thirty years.
const FOREVER: f64 = 1e9;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_error| "a number of seconds, such as 10 or 0.5, is needed".to_owned())?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err("a limit is not negative".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds.min(FOREVER)))
}

/// Clap gives it only what is UTF-8; its own words for the rest are clear.
#[expect(clippy::unnecessary_wraps, reason = "a value parser returns a result")]
fn key(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}
