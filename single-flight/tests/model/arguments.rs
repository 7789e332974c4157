//! What the command line asks for.

use std::time::Duration;

/// How much is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// The beginning of each set of runs: what plain `cargo test` has time for.
    Beginning,
    Ci,
    Large,
}

pub(crate) struct Arguments {
    pub(crate) set: Set,
    pub(crate) sabotage: bool,
    /// The safeguard that this process switches off.
    pub(crate) off: Option<String>,
    /// Part of the name of the sets of runs.
    pub(crate) only: Option<String>,
    pub(crate) threads: usize,
    /// The most states of one set of runs.
    pub(crate) most: usize,
    /// Begin no set of runs after so long, and give up the one under way.
    pub(crate) time: Duration,
    /// Print the way to a failure, event by event.
    pub(crate) transcript: bool,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments {
            set: Set::Beginning,
            sabotage: false,
            off: None,
            only: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            most: usize::MAX,
            time: Duration::from_secs(24 * 60 * 60),
            transcript: true,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--ci" => arguments.set = Set::Ci,
                "--large" => arguments.set = Set::Large,
                "--sabotage" => arguments.sabotage = true,
                "--no-transcript" => arguments.transcript = false,
                "--off" => arguments.off = Some(value()?),
                "--only" => arguments.only = Some(value()?),
                "--threads" => arguments.threads = number(&value()?)?,
                "--most" => arguments.most = number(&value()?)?,
                "--seconds" => arguments.time = Duration::from_secs(number(&value()?)? as u64),
                _ => return Err(format!("there is no argument {word:?}")),
            }
        }
        Ok(arguments)
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.replace('_', "").parse().map_err(|_| format!("{text:?} is not a number"))
}
