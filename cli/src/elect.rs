//! `flight elect`: a command that runs while elected.

use std::ffi::OsString;

use flight_election::Election;
use flight_key_lock::KeyLocks;

use crate::args;
use crate::command::quoted;
use crate::exit::Failed;
use crate::lock::{Wait, busy, under};
use crate::output::say;
use crate::platform;
use crate::post::Post;

/// The folder of the elections in the directory: in it one for each name.
const FOLDER: &str = "elections";

pub(crate) async fn elect(args: args::Elect) -> Result<i32, Failed> {
    let args::Elect { directory, wait, quiet, name, command } = args;
    let directory = directory.open()?;
    // A name is text of any length, and a file name is not.
    let hash = KeyLocks::file_name(name.as_bytes());
    let folder = directory.subdirectory(FOLDER).map_err(Failed::unusable)?;
    let folder = folder.subdirectory(&hash).map_err(Failed::unusable)?;
    let mut signals = platform::listen().map_err(Failed::unusable)?;
    let post = Post::default();
    let locks = KeyLocks::new(&folder).map_err(Failed::unusable)?;
    let election = Election::new(folder);

    let waiting = Wait {
        what: &name,
        limit: wait,
        quiet,
        told: async {
            "another is elected, or its command has outlived it; this one takes over when both have ended".to_owned()
        },
    };
    let winning = async {
        let leadership = election.campaign().await.map_err(Failed::unusable)?;
        // The command of a leader that was killed has this lock, and goes on: two must not run at once. Second, so that who has it leads.
        let lock = locks.acquire(name.as_bytes()).await.map_err(Failed::unusable)?;
        Ok(Some((leadership, lock)))
    };
    let (leadership, lock) = match waiting.of(winning, &mut signals, &post).await {
        Ok(Ok(Some(won))) => won,
        Ok(Ok(None)) => return Err(busy(&name, wait.or(Some(std::time::Duration::ZERO)))),
        Ok(Err(failed)) => return Err(failed),
        Err(signal) => return Ok(post.code_of(signal)),
    };
    if !quiet {
        tell_term(&name, leadership.epoch().get());
    }

    let environment: Vec<(&str, OsString)> =
        vec![("FLIGHT_NAME", name.into()), ("FLIGHT_EPOCH", leadership.epoch().to_string().into())];
    let is_current = || Ok(leadership.is_current()? && lock.is_current()?);
    let ended = under(&lock, &command, environment, is_current, &mut signals, post).await;
    if let Err(error) = lock.unlock() {
        say(error);
    }
    // The last act: the successor may begin before it returns.
    if let Err(error) = leadership.resign() {
        say(error);
    }
    ended
}

fn tell_term(name: &str, epoch: u32) {
    use std::io::IsTerminal as _;
    // For those who watch. A log has the command's own words.
    if std::io::stderr().is_terminal() {
        say(format_args!("elected for {} (epoch {epoch})", quoted(name)));
    }
}
