//! `flight run`.

use std::fs::File;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use single_flight::{Flight, Joined, Lease, Options, RunError, SingleFlight};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{self, MissedTickBehavior};

use crate::args;
use crate::command::{label, quoted};
use crate::exit::{self, Failed};
use crate::follow::{Progress, Until};
use crate::lead::{Display, Job, Landing, LandingCodec, Shown, display, lead};
use crate::lineage;
use crate::output::{Output, Spinner, say};
use crate::platform::{self, Received};
use crate::post::Post;
use crate::spool::{Entry, Spools};
use crate::waiting::{For, PATIENCE, TURN, announcement, describe, leader};

/// How long a command that must stop has after TERM.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// What the parts of a call share.
struct Call {
    key: String,
    spools: Spools,
    post: Arc<Post>,
    progress: Arc<Progress>,
    spinner: Spinner,
    quiet: bool,
    /// Until this call leads, or has opened the spool of the run that it joined.
    entry: Mutex<Option<(Entry, Output)>>,
    role: Mutex<Role>,
    display: Mutex<Option<Display>>,
}

#[derive(Clone, Debug)]
enum Role {
    Waiting,
    Joined { joined: Joined, at: Instant },
    Leading,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) async fn run(args: args::Run) -> Result<i32, Failed> {
    let args::Run { directory, wait, quiet, json, key, command } = args;
    let directory = directory.open()?;
    let spools = Spools::open(&directory).map_err(Failed::unusable)?;
    lineage::check(&spools, &key)?;
    let mut signals = platform::listen().map_err(Failed::unusable)?;
    let options = Options::new().label(label(&command));
    let flights = SingleFlight::<()>::open_with(directory.path(), options).map_err(Failed::unusable)?;
    let flights = flights.with_codec(LandingCodec);

    let spinner = Spinner::new(quiet);
    let output = Output::new(spinner.clone()).map_err(Failed::unusable)?;
    let call = Arc::new(Call {
        key: key.clone(),
        entry: Mutex::new(Some((spools.enter(&key), output))),
        spools,
        post: Arc::default(),
        progress: Arc::default(),
        spinner,
        quiet,
        role: Mutex::new(Role::Waiting),
        display: Mutex::default(),
    });

    let (of_work, of_join) = (Arc::clone(&call), Arc::clone(&call));
    let mut run = flights
        .run(key.clone(), move |lease| async move { of_work.work(command, lease).await })
        .on_join(move |joined| of_join.join(joined));
    if let Some(limit) = wait {
        run = run.wait_timeout(limit);
    }
    let ended = call.attend(run.start(), &flights, &mut signals).await;
    let ended = match ended {
        Ok(ended) => ended,
        Err(signal) => return Ok(call.post.code_of(signal)),
    };

    let result = call.finish(ended, &flights, &mut signals).await;
    let result = match result {
        Ok(result) => result,
        Err(signal) => return Ok(call.post.code_of(signal)),
    };
    if json {
        let line = serde_json::to_string(&result).expect("text and numbers are JSON");
        drop(io::Write::write_all(&mut io::stderr(), format!("{line}\n").as_bytes()));
    }
    Ok(result.signal.map_or(result.code, |signal| call.post.code_of(signal)))
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    key: String,
    /// As text: a number of this size is not exact everywhere.
    token: Option<String>,
    epoch: Option<u32>,
    joined: Option<bool>,
    code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Call {
    /// The work of this call, when it leads.
    async fn work(&self, words: Vec<std::ffi::OsString>, lease: Lease) -> Result<Landing, io::Error> {
        *locked(&self.role) = Role::Leading;
        self.spinner.clear();
        let Some((entry, output)) = locked(&self.entry).take() else {
            return Err(io::Error::other("a call leads and has joined"));
        };
        let job = Job {
            words,
            key: self.key.clone(),
            spools: self.spools.clone(),
            entry,
            post: Arc::clone(&self.post),
            output,
            progress: Arc::clone(&self.progress),
        };
        let of_command = lease.clone();
        let mut leading = pin!(tokio::task::spawn_blocking(move || lead(job, &of_command)));
        let led = tokio::select! {
            led = &mut leading => led,
            _lost = lease.lost() => {
                say(format_args!(
                    "the lock of {} was removed or replaced: another run may begin beside this one, which is ended", quoted(&self.key)
                ));
                stop(&self.post, leading).await
            }
        };
        let (landing, display) = led.map_err(io::Error::other)?;
        *locked(&self.display) = Some(display);
        Ok(landing)
    }

    /// Begins to follow the run that this call joined.
    fn join(&self, joined: &Joined) {
        *locked(&self.role) = Role::Joined { joined: joined.clone(), at: Instant::now() };
        let Some((entry, output)) = locked(&self.entry).take() else { return };
        let (spools, name) = (self.spools.clone(), Spools::name(&self.key, joined.token));
        let open = move |progress: &Progress| {
            let opened = wait_for(&spools, &name, progress);
            drop(entry);
            opened
        };
        match display(output, Arc::clone(&self.progress), false, open) {
            Ok(shown) => *locked(&self.display) = Some(Display::Underway(shown)),
            Err(error) => say(format_args!("cannot show the output of the run: {error}")),
        }
    }

    /// Waits for the call, hands signals on, and tells what is waited for. `Err`: a signal that means this process.
    async fn attend(
        self: &Arc<Self>,
        mut call: single_flight::Call<Landing>,
        flights: &SingleFlight<Landing>,
        signals: &mut UnboundedReceiver<Received>,
    ) -> Result<Result<Flight<Landing>, RunError>, i32> {
        let begun = Instant::now();
        let mut announce = pin!(time::sleep(PATIENCE));
        let mut is_told = self.quiet;
        let mut turn = time::interval(TURN);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                ended = &mut call => return Ok(ended),
                Some(received) = signals.recv() => {
                    if let Some(signal) = self.post.handle(received) {
                        return Err(signal);
                    }
                }
                () = &mut announce, if !is_told => {
                    is_told = true;
                    let (call, flights) = (Arc::clone(self), flights.clone());
                    // Not here: a coordinator that does not answer takes its time, and signals do not wait for it.
                    tokio::spawn(async move { call.announce(&flights).await });
                }
                _ = turn.tick(), if self.spinner.is_wanted() && is_told => self.turn(begun.elapsed()),
            }
        }
    }

    async fn announce(&self, flights: &SingleFlight<Landing>) {
        let role = locked(&self.role).clone();
        let told = match role {
            Role::Leading => return,
            Role::Joined { joined, at } => leader(joined.pid, &joined.label, joined.since + at.elapsed()),
            Role::Waiting => {
                let status = flights.status().await;
                // It may have changed while it asked.
                match &*locked(&self.role) {
                    Role::Leading => return,
                    Role::Joined { joined, at } => leader(joined.pid, &joined.label, joined.since + at.elapsed()),
                    Role::Waiting => describe(&status, &self.key),
                }
            }
        };
        self.spinner.clear();
        say(announcement(&self.key, &told));
    }

    fn turn(&self, waited: Duration) {
        if !matches!(*locked(&self.role), Role::Leading) {
            self.spinner.draw(format_args!("waiting for {} ({})", quoted(&self.key), For(waited)));
        }
    }

    /// Sees to it that all is shown and delivered. `Err`: a signal came first.
    async fn finish(
        &self,
        ended: Result<Flight<Landing>, RunError>,
        flights: &SingleFlight<Landing>,
        signals: &mut UnboundedReceiver<Received>,
    ) -> Result<Report, i32> {
        if let Err(RunError::TimedOut { .. }) = &ended {
            // What it has not shown by now it need not show.
            locked(&self.display).take();
        }
        match &ended {
            Ok(flight) if flight.joined => self.progress.end(Until::Length(flight.value.output)),
            Ok(_) => {}
            Err(_) => self.progress.end(Until::Whatever),
        }
        let shown = async {
            let display = locked(&self.display).take();
            match display {
                Some(Display::Underway(shown)) => shown.await.ok(),
                Some(Display::Done(shown)) => Some(shown),
                None => None,
            }
        };
        let mut both = pin!(async { tokio::join!(shown, self.close(flights)).0 });
        let shown = loop {
            tokio::select! {
                shown = &mut both => break shown,
                Some(received) = signals.recv() => {
                    if let Some(signal) = self.post.handle(received) {
                        return Err(signal);
                    }
                }
            }
        };
        self.spinner.clear();
        Ok(self.report(ended, shown))
    }

    /// Waits until what this process landed is delivered.
    async fn close(&self, flights: &SingleFlight<Landing>) {
        let mut closed = pin!(flights.close());
        tokio::select! {
            // It fails in a forked process only.
            _ = &mut closed => return,
            () = time::sleep(PATIENCE) => {}
        }
        if !self.quiet {
            let status = flights.status().await;
            let who = status.pid.map_or(String::new(), |pid| format!(", process {pid},"));
            say(format_args!(
                "{} has ended; waiting until the coordinator{who} has told the others: it {}",
                quoted(&self.key),
                status.state
            ));
        }
        let _ = closed.await;
    }

    fn report(&self, ended: Result<Flight<Landing>, RunError>, mut shown: Option<Shown>) -> Report {
        let key = self.key.clone();
        let ended = match ended {
            // When everybody ends at once, so do the coordinators, one after the other, and the last does not know what the first
            // did. The spool is that of the run that was joined, whose leader had no more to do.
            Err(RunError::Interrupted { token, .. })
                if let Some(value) = shown.as_mut().and_then(|shown| shown.landing.take()) =>
            {
                Ok(Flight { value, joined: true, token })
            }
            ended => ended,
        };
        let flight = match ended {
            Ok(flight) => flight,
            Err(error) => {
                let failed = Failed::from(error);
                say(&failed.text);
                let (code, error) = (failed.code, Some(failed.text));
                return Report { key, token: None, epoch: None, joined: None, code, signal: None, error };
            }
        };
        self.spools.remove(&Spools::name(&self.key, flight.token));
        let Landing { end, lost, .. } = flight.value;
        let own = shown.as_ref().and_then(|shown| shown.output.fault());
        let read = shown.and_then(|shown| shown.fault);
        let missing =
            lost.filter(|_| flight.joined).map(|lost| format!("a part of the output is missing here: {lost}"));
        let fault = missing.or(read).map(|text| (exit::UNUSABLE, text)).or(own.map(|text| (exit::OUTPUT, text)));
        let (mut code, mut signal, mut error) = (end.code, end.signal, None);
        if let Some((own_code, text)) = fault {
            say(&text);
            error = Some(text);
            // The command's own failure says more.
            if code == 0 {
                (code, signal) = (own_code, None);
            }
        }
        let (token, epoch) = (Some(flight.token.to_string()), Some(flight.token.epoch().get()));
        Report { key, token, epoch, joined: Some(flight.joined), code, signal, error }
    }
}

/// Ends a command: TERM, then KILL.
pub(crate) async fn stop<F: Future + Unpin>(post: &Post, mut ended: F) -> F::Output {
    post.send(platform::TERMINATE);
    tokio::select! {
        ended = &mut ended => return ended,
        () = time::sleep(GRACE) => {}
    }
    post.send(platform::KILL);
    ended.await
}

/// Opens the spool of a run that began. Its leader makes it at once, unless it cannot, or dies.
fn wait_for(spools: &Spools, name: &str, progress: &Progress) -> io::Result<Option<File>> {
    let mut pause = Duration::ZERO;
    loop {
        // Before the opening: a run that has ended has made its spool, if it could.
        let until = progress.until();
        match spools.read(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match until {
                Until::Further => progress.pause(&mut pause),
                // There was nothing to keep, or the landing tells that it could not be kept.
                Until::Length(0) | Until::Whatever => return Ok(None),
                Until::Length(_) => return Err(error),
            },
            opened => return opened.map(Some),
        }
    }
}
