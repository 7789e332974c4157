//! The leader's part of `flight run`: it runs the command, and keeps its output for the others.

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;

use serde::{Deserialize, Serialize};
use single_flight::{Codec, Lease};
use tokio::sync::oneshot;

use crate::args::DRAIN;
use crate::command::{command, not_started};
use crate::exit::{End, NOT_EXECUTABLE};
use crate::follow::{Progress, Until, follow};
use crate::lineage;
use crate::output::{Output, say};
use crate::platform;
use crate::post::Post;
use crate::spool::{Entry, HEAD, Spool, Spools, Stream};

/// What a run lands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Landing {
    pub(crate) end: End,
    /// How long the spool is.
    pub(crate) output: u64,
    /// Why the spool does not hold all of the output.
    pub(crate) lost: Option<String>,
}

/// How a landing travels: JSON, with a name of its own, so that a key is not shared with a program that lands something else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LandingCodec;

impl Codec<Landing> for LandingCodec {
    fn name(&self) -> &'static str {
        "flight-run-1"
    }

    fn encode(&self, value: &Landing) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Landing, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// The output on its way to this process's own streams.
#[derive(Debug)]
pub(crate) enum Display {
    /// A thread copies the spool, and hands the streams back at its end.
    Underway(oneshot::Receiver<Shown>),
    Done(Shown),
}

/// The streams of this process, after the copying of a spool, and what went wrong with that.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) output: Output,
    pub(crate) fault: Option<String>,
    /// What the spool says that the run landed.
    pub(crate) landing: Option<Landing>,
}

/// Starts to copy a spool to this process's own streams.
pub(crate) fn display(
    mut output: Output,
    progress: Arc<Progress>,
    tells: bool,
    open: impl FnOnce(&Progress) -> io::Result<Option<File>> + Send + 'static,
) -> io::Result<oneshot::Receiver<Shown>> {
    let (hand_back, shown) = oneshot::channel();
    thread::Builder::new().name("output".to_owned()).spawn(move || {
        let done = open(&progress).and_then(|spool| match spool {
            Some(spool) => follow(spool, &progress, tells, &mut output),
            None => Ok(Vec::new()),
        });
        let (landing, fault) = match done {
            Ok(landing) => (serde_json::from_slice(&landing).ok(), None),
            Err(error) => (None, Some(format!("cannot read the output of the run: {error}"))),
        };
        // Nobody wants it back when the call was left.
        drop(hand_back.send(Shown { output, fault, landing }));
    })?;
    Ok(shown)
}

/// What it takes to run the command.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) words: Vec<OsString>,
    pub(crate) key: String,
    pub(crate) spools: Spools,
    pub(crate) entry: Entry,
    pub(crate) post: Arc<Post>,
    pub(crate) output: Output,
    pub(crate) progress: Arc<Progress>,
}

/// Runs the command to its end. Blocks.
pub(crate) fn lead(job: Job, lease: &Lease) -> (Landing, Display) {
    let Job { words, key, spools, entry, post, output, progress } = job;
    let name = Spools::name(&key, lease.token());
    let mut sink = Sink::new(spools.create(&name, &entry), output, &progress);
    // The spool is there and locked: see its invariant 2.
    drop(entry);

    let mut command = command(&words);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("FLIGHT_KEY", &key)
        .env("FLIGHT_TOKEN", lease.token().to_string())
        .env("FLIGHT_EPOCH", lease.token().epoch().to_string())
        .env(lineage::VARIABLE, lineage::extended(&name));
    let end = match run(&mut command, &post, lease, &spools, &mut sink) {
        Ok(end) => end,
        Err(error) => {
            let (text, code) = not_started(&words, &error);
            sink.take(Stream::Err, &mut with_head(format!("flight: {text}\n").as_bytes()));
            End::code(code)
        }
    };
    sink.close(end, lease.is_lost())
}

/// An error means that no command was started.
fn run(
    command: &mut Command,
    post: &Arc<Post>,
    lease: &Lease,
    spools: &Spools,
    sink: &mut Sink<'_>,
) -> io::Result<End> {
    // Before the command, since each may fail.
    let (ended, not_yet) = io::pipe()?;
    let (give, get) = mpsc::channel::<Child>();
    let waiting = Arc::clone(post);
    let waiter = thread::Builder::new().name("wait".to_owned()).spawn(move || {
        let child = get.recv().ok()?;
        let end = waiting.wait(child);
        drop(not_yet);
        Some(end)
    })?;
    let mut child = post.start(|| lease.spawn(command))?;
    let streams = (child.stdout.take(), child.stderr.take());
    // It waits for it, and for nothing else.
    drop(give.send(child));
    spools.sweep();

    if let (Some(stdout), Some(stderr)) = streams {
        match platform::pump(stdout, stderr, &ended, |stream, record| sink.take(stream, record)) {
            Ok(left) => leave(left),
            Err(error) => say(format_args!("cannot read the command's output: {error}")),
        }
    }
    match waiter.join() {
        Ok(Some(Ok(end))) => Ok(end),
        Ok(Some(Err(error))) => {
            say(format_args!("cannot get the command's exit status: {error}"));
            Ok(End::code(NOT_EXECUTABLE))
        }
        Ok(None) | Err(_) => Ok(End::code(NOT_EXECUTABLE)),
    }
}

/// Gives the pipes that something in the background holds to a process that reads them, or else its next word to them would end it.
fn leave(pipes: [Option<Stdio>; 2]) {
    let [out, err] = pipes;
    if out.is_none() && err.is_none() {
        return;
    }
    let Ok(program) = platform::own_program() else { return };
    let mut drain = Command::new(program);
    drain.arg(DRAIN).current_dir(std::path::Component::RootDir).stdout(Stdio::null());
    drain.stdin(out.unwrap_or_else(Stdio::null)).stderr(err.unwrap_or_else(Stdio::null));
    platform::detach(&mut drain);
    // Nothing can be done for it otherwise.
    drop(drain.spawn());
}

/// Where the command's output goes: to the spool, and from there to this process's streams; or, when the spool cannot take it, to the
/// streams alone.
struct Sink<'a> {
    way: Way,
    progress: &'a Arc<Progress>,
    length: u64,
    lost: Option<String>,
}

enum Way {
    Spooled {
        spool: Spool,
        shown: oneshot::Receiver<Shown>,
    },
    /// The spool, if there is one, stays locked: the run goes on.
    Direct {
        _spool: Option<Spool>,
        shown: Shown,
    },
    /// Between the two.
    Nowhere,
}

impl<'a> Sink<'a> {
    fn new(created: io::Result<(Spool, File)>, output: Output, progress: &'a Arc<Progress>) -> Sink<'a> {
        let direct = |spool, output, error: io::Error| {
            let lost = Some(format!("the leader could not keep it: {error}"));
            let way = Way::Direct { _spool: spool, shown: Shown { output, fault: None, landing: None } };
            Sink { way, progress, length: 0, lost }
        };
        let (spool, reader) = match created {
            Ok(created) => created,
            Err(error) => return direct(None, output, error),
        };
        // Made before, because a thread that cannot be started does not give the streams back.
        let spare = output.duplicate();
        match (display(output, Arc::clone(progress), true, |_| Ok(Some(reader))), spare) {
            (Ok(shown), _) => Sink { way: Way::Spooled { spool, shown }, progress, length: 0, lost: None },
            (Err(error), Ok(output)) => direct(Some(spool), output, error),
            (Err(error), Err(_)) => Sink { way: Way::Nowhere, progress, length: 0, lost: Some(error.to_string()) },
        }
    }

    /// Takes a piece that has room for a head before it.
    fn take(&mut self, stream: Stream, record: &mut [u8]) {
        let (error, written) = match &mut self.way {
            Way::Spooled { spool, .. } => match spool.add(stream, record) {
                Ok(()) => {
                    self.length = spool.length();
                    self.progress.wrote();
                    return;
                }
                Err(error) => {
                    let written = usize::try_from(spool.length() - self.length).unwrap_or(0);
                    self.length = spool.length();
                    (error, written)
                }
            },
            Way::Direct { shown, .. } => return shown.output.write(stream, &record[HEAD..]),
            Way::Nowhere => return,
        };
        // The command goes on as it would without us: only those who joined lose something, and are told.
        self.lost = Some(format!("the leader could not keep the rest: {error}"));
        self.progress.end(Until::Length(self.length));
        let Way::Spooled { spool, shown } = std::mem::replace(&mut self.way, Way::Nowhere) else { return };
        if let Ok(mut shown) = shown.blocking_recv() {
            // A part of the piece may have found its way.
            shown.output.write(stream, &record[written.max(HEAD)..]);
            self.way = Way::Direct { _spool: Some(spool), shown };
        }
    }

    fn close(mut self, end: End, is_lost: bool) -> (Landing, Display) {
        if self.lost.is_none() {
            self.progress.end(Until::Length(self.length));
        }
        let landing = Landing { end, output: self.length, lost: self.lost };
        // A leader that is not alone any more lands nothing.
        if let Way::Spooled { spool, .. } = &mut self.way
            && !is_lost
        {
            let mut record = with_head(&serde_json::to_vec(&landing).expect("text and numbers are JSON"));
            // It is the second way to those who joined. The first is the coordinator.
            drop(spool.add(Stream::Landing, &mut record));
        }
        let display = match self.way {
            Way::Spooled { shown, .. } => Display::Underway(shown),
            Way::Direct { shown, .. } => Display::Done(shown),
            // A closed channel: the thread of the output had a fault, and has told it.
            Way::Nowhere => Display::Underway(oneshot::channel().1),
        };
        (landing, display)
    }
}

fn with_head(bytes: &[u8]) -> Vec<u8> {
    let mut record = vec![0; HEAD];
    record.extend_from_slice(bytes);
    record
}
