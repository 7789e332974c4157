//! `flight lock`: the key lock alone.

use std::ffi::OsString;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flight_key_lock::{KeyLock, KeyLocks, LocalDirectory};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{self, MissedTickBehavior};

use crate::args;
use crate::ask::{Answer, ask};
use crate::command::{command, not_started, quoted};
use crate::exit::{self, End, Failed};
use crate::lineage::Mark;
use crate::output::{Spinner, say};
use crate::platform::{self, Received};
use crate::post::Post;
use crate::run::stop;
use crate::spool::Spools;
use crate::waiting::{For, PATIENCE, TURN, UNKNOWN, announcement, held};

/// How often a lock is compared with its path.
const CHECK: Duration = Duration::from_secs(1);

pub(crate) async fn lock(args: args::Lock) -> Result<i32, Failed> {
    let args::Lock { directory, wait, no_wait, quiet, key, command } = args;
    let directory = directory.open()?;
    let spools = Spools::open(&directory).map_err(Failed::unusable)?;
    crate::lineage::check(&spools, &key)?;
    let mut signals = platform::listen().map_err(Failed::unusable)?;
    let post = Post::default();
    let locks = KeyLocks::new(&directory).map_err(Failed::unusable)?;

    let limit = if no_wait { Some(Duration::ZERO) } else { wait };
    let taken = {
        let told = holder(directory, key.clone());
        let wait = Wait { what: &key, limit, quiet, told };
        let taking = async {
            if no_wait {
                return locks.try_acquire(key.as_bytes()).map_err(Failed::unusable);
            }
            locks.acquire(key.as_bytes()).await.map(Some).map_err(Failed::unusable)
        };
        wait.of(taking, &mut signals, &post).await
    };
    let lock = match taken {
        Ok(Ok(Some(lock))) => lock,
        Ok(Ok(None)) => return Err(busy(&key, limit)),
        Ok(Err(failed)) => return Err(failed),
        Err(signal) => return Ok(post.code_of(signal)),
    };

    let mark = Mark::new(&spools, &key);
    let mut environment: Vec<(&str, OsString)> = vec![("FLIGHT_KEY", key.clone().into())];
    environment.extend(mark.variable());
    let is_current = || lock.is_current();
    let ended = under(&lock, &command, environment, is_current, &mut signals, post).await;
    // At once, for every child that has it too: the command has ended.
    if let Err(error) = lock.unlock() {
        say(error);
    }
    ended
}

/// The words and the code for a limit that ran out.
pub(crate) fn busy(what: &str, limit: Option<Duration>) -> Failed {
    let what = quoted(what);
    match limit.filter(|limit| !limit.is_zero()) {
        Some(limit) => Failed::new(
            exit::TIMED_OUT,
            format_args!(
                "waited {} for {what}: another has it. It is free when that process ends; nothing needs to be deleted",
                For(limit)
            ),
        ),
        None => Failed::new(exit::TIMED_OUT, format_args!("{what} is busy")),
    }
}

/// Who holds a key's lock, as far as a coordinator knows. None is elected for this.
async fn holder(directory: LocalDirectory, key: String) -> String {
    let asked = tokio::task::spawn_blocking(move || match ask(directory.path()) {
        Answer::Report(report) => held(&report, &key),
        _ => UNKNOWN.to_owned(),
    });
    asked.await.unwrap_or_else(|_fault| UNKNOWN.to_owned())
}

/// A wait that is told after a while, can be left by a signal, and may have a limit.
pub(crate) struct Wait<'a, T> {
    pub(crate) what: &'a str,
    pub(crate) limit: Option<Duration>,
    pub(crate) quiet: bool,
    /// What is waited for, in words.
    pub(crate) told: T,
}

impl<T: Future<Output = String> + 'static> Wait<'_, T> {
    /// `Err`: a signal came first. `Ok(Ok(None))`: the limit ran out.
    pub(crate) async fn of<V>(
        self,
        taking: impl Future<Output = Result<Option<V>, Failed>>,
        signals: &mut UnboundedReceiver<Received>,
        post: &Post,
    ) -> Result<Result<Option<V>, Failed>, i32> {
        let Wait { what, limit, quiet, told } = self;
        let begun = Instant::now();
        let mut taking = pin!(taking);
        let mut told = pin!(async {
            time::sleep(PATIENCE).await;
            told.await
        });
        let mut over = pin!(time::sleep(limit.unwrap_or(Duration::MAX)));
        let spinner = Spinner::new(quiet);
        let mut turn = time::interval(TURN);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_told = quiet;
        let taken = loop {
            tokio::select! {
                biased;
                taken = &mut taking => break Ok(taken),
                Some(received) = signals.recv() => {
                    if let Some(signal) = post.handle(received) {
                        break Err(signal);
                    }
                }
                () = &mut over, if limit.is_some() => break Ok(Ok(None)),
                told = &mut told, if !is_told => {
                    is_told = true;
                    say(announcement(what, &told));
                }
                _ = turn.tick(), if spinner.is_wanted() && is_told => {
                    spinner.draw(format_args!("waiting for {} ({})", quoted(what), For(begun.elapsed())));
                }
            }
        };
        spinner.clear();
        taken
    }
}

/// Runs a command to its end, with the lock handed to it, and ends it when `is_current` says that the lock is not the lock any more.
pub(crate) async fn under(
    lock: &KeyLock,
    words: &[OsString],
    environment: Vec<(&str, OsString)>,
    is_current: impl Fn() -> std::io::Result<bool>,
    signals: &mut UnboundedReceiver<Received>,
    post: Post,
) -> Result<i32, Failed> {
    let post = Arc::new(post);
    let mut command = command(words);
    command.envs(environment);
    let child = match post.start(|| lock.spawn(&mut command)) {
        Ok(child) => child,
        Err(error) => {
            let (text, code) = not_started(words, &error);
            return Err(Failed::new(code, text));
        }
    };
    let waiting = Arc::clone(&post);
    let mut ended = pin!(tokio::task::spawn_blocking(move || waiting.wait(child)));
    let mut check = time::interval(CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (ended, is_lost) = loop {
        tokio::select! {
            ended = &mut ended => break (ended, false),
            Some(received) = signals.recv() => {
                // The command has ended, and the news of it is on its way.
                post.handle(received);
            }
            // What cannot be looked at now is looked at again.
            _ = check.tick() => if !is_current().unwrap_or(true) {
                say("the lock was removed or replaced: another may run beside this command, which is ended");
                break (stop(&post, ended).await, true);
            }
        }
    };
    let end: End = ended.map_err(Failed::unusable)?.map_err(Failed::unusable)?;
    if is_lost {
        return Ok(exit::INTERRUPTED);
    }
    Ok(post.code_for(end))
}
