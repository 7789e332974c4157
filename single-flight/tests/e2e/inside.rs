//! A member of a group, from the inside: this process does what its standard input says, and tells what it sees.
//!
//! ```text
//! open <handle> <directory>                     opened <handle>
//! call <id> <handle> <key> <how> [<limit, ms>]  start <id> <token> · joined <id> <token> <pid> · lost <id> <token>
//!                                               landed <id> <token> led|joined <key> <value> · failed <id> <error> <token> <text>
//! finish <id>                                   lets a work that holds end
//! last <id> <handle> <key> <how>                a call like `call`; the process exits when it returns, and tells nothing
//! gate <file> call …                            waiting; then a call, when the file's lock can be shared
//! loop <id> <count> <key>                       what `call` tells, and then looped <id>
//! storm <id> <count> <seed>                     the same, with works, limits and cancels by chance; calls that left tell `left <id>`
//! close <handle> [<limit, ms>]                  closed <handle> · unclosed <handle> <text>
//! status <handle>                               status <epoch> <pid> <flights> <joiners>
//! ```
//! `<how>` is `now` (the work ends at once), `hold` (it waits for `finish`) or `child` (it tells `child <id> <pid>` of a child that it has given the
//! key to, and holds). `hold:<bytes>` says how long its value is at least.

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use single_flight::{Codec, Flight, Lease, Run, RunError, SingleFlight};
use tokio::sync::{mpsc, oneshot};

use crate::journal::Journal;
use crate::member::{DIRECTORY, JOURNAL};

/// Not a test of its own: does nothing unless a scenario runs it as another process.
#[test]
fn a_member_of_a_group() {
    let (Some(directory), Some(journal)) = (std::env::var_os(DIRECTORY), std::env::var_os(JOURNAL)) else { return };
    let (sender, commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = open(directory);
    let mut member = Member {
        handles: HashMap::from([("0".to_owned(), first)]),
        holds: HashMap::new(),
        journal: Journal(journal.into()),
    };
    tell("ready");
    runtime.block_on(member.obey(commands));
}

fn open(directory: impl AsRef<Path>) -> SingleFlight<String> {
    SingleFlight::<()>::open(directory).unwrap().with_codec(Plain)
}

/// Text as it is. To decode a long value as JSON takes so long that a process that ends right after its call would not end at once.
struct Plain;

impl Codec<String> for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn encode(&self, value: &String) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(value.clone().into_bytes())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, Box<dyn Error + Send + Sync>> {
        // Cheap: it is looked at by its beginning and its length only.
        Ok(String::from_utf8(bytes.to_vec())?)
    }
}

struct Member {
    handles: HashMap<String, SingleFlight<String>>,
    /// What lets a work end.
    holds: HashMap<String, oneshot::Sender<()>>,
    journal: Journal,
}

/// One call, as a command describes it.
struct Call {
    id: String,
    key: String,
    run: Run<String>,
}

impl Member {
    /// Until the standard input ends.
    async fn obey(&mut self, mut commands: mpsc::UnboundedReceiver<String>) {
        while let Some(command) = commands.recv().await {
            let words: Vec<&str> = command.split(' ').collect();
            match words[..] {
                ["open", handle, directory] => {
                    self.handles.insert(handle.to_owned(), open(directory));
                    tell(&format!("opened {handle}"));
                }
                ["call", ref call @ ..] => drop(tokio::spawn(self.call(call).report())),
                ["gate", file, "call", ref call @ ..] => {
                    let (call, gate) = (self.call(call), std::fs::File::open(file).unwrap());
                    tell("waiting");
                    gate.lock_shared().unwrap();
                    tokio::spawn(call.report());
                }
                ["last", ref call @ ..] => {
                    let call = self.call(call);
                    tokio::spawn(async move {
                        // What the end of `main` does, and nothing before it.
                        drop(call.run.await);
                        std::process::exit(0);
                    });
                }
                ["storm", id, count, seed] => self.storm(id, count.parse().unwrap(), seed.parse().unwrap()),
                ["loop", id, count, key] => self.repeat(id, count.parse().unwrap(), key),
                ["finish", id] => drop(self.holds.remove(id).unwrap().send(())),
                ["close", handle, ref limit @ ..] => {
                    let (flights, handle) = (self.handles[handle].clone(), handle.to_owned());
                    let limit = limit.first().map(|limit| Duration::from_millis(limit.parse().unwrap()));
                    tokio::spawn(async move {
                        let closed = match limit {
                            None => flights.close().await,
                            Some(limit) => flights.close_timeout(limit).await,
                        };
                        tell(&match closed {
                            Ok(()) => format!("closed {handle}"),
                            Err(error) => format!("unclosed {handle} {error}"),
                        });
                    });
                }
                ["status", handle] => {
                    let flights = self.handles[handle].clone();
                    tokio::spawn(async move { tell(&status(&flights).await) });
                }
                _ => panic!("what is {command:?}?"),
            }
        }
    }

    fn call(&mut self, words: &[&str]) -> Call {
        let [id, handle, key, how, ref limit @ ..] = *words else { panic!("a call needs more than {words:?}") };
        let (ends, length) = match how.split_once(':').unwrap_or((how, "0")) {
            ("now", length) => (End::Now, length),
            ("hold" | "child", length) => {
                let (end, told) = oneshot::channel();
                self.holds.insert(id.to_owned(), end);
                (End::Told(told), length)
            }
            _ => panic!("how is {how:?}?"),
        };
        let work = Work {
            id: id.to_owned(),
            key: key.to_owned(),
            length: length.parse().unwrap(),
            end: ends,
            has_child: how == "child",
            journal: self.journal.clone(),
        };
        let said = id.to_owned();
        let mut run = self.handles[handle]
            .run(key, |lease| work.run(lease))
            .on_join(move |flight| tell(&format!("joined {said} {} {}", flight.token.as_u64(), flight.pid)));
        if let [limit] = limit {
            run = run.wait_timeout(Duration::from_millis(limit.parse().unwrap()));
        }
        Call { id: id.to_owned(), key: key.to_owned(), run }
    }

    fn repeat(&self, id: &str, count: u32, key: &str) {
        let (id, key) = (id.to_owned(), key.to_owned());
        let (flights, journal) = (self.handles["0"].clone(), self.journal.clone());
        tokio::spawn(async move {
            for _ in 0..count {
                let (id, key, journal) = (id.clone(), key.clone(), journal.clone());
                let work =
                    Work { id: id.clone(), key: key.clone(), length: 0, end: End::Now, has_child: false, journal };
                let run = flights.run(&key, |lease| work.run(lease));
                Call { id, key, run }.report().await;
            }
            tell(&format!("looped {id}"));
        });
    }
}

impl Member {
    fn storm(&self, id: &str, count: u32, seed: u64) {
        let (id, mut chance) = (id.to_owned(), Chance(seed));
        let (flights, journal) = (self.handles["0"].clone(), self.journal.clone());
        tokio::spawn(async move {
            for _ in 0..count {
                let (id, journal) = (id.clone(), journal.clone());
                let key = format!("k{}", chance.below(3));
                let end = if chance.below(2) == 0 { End::Now } else { End::After(chance.micros(4000)) };
                let length = if chance.below(8) == 0 { 400_000 } else { 0 };
                let work = Work { id: id.clone(), key: key.clone(), length, end, has_child: false, journal };
                let mut run = flights.run(&key, |lease| work.run(lease));
                if chance.below(4) == 0 {
                    run = run.wait_timeout(chance.micros(20_000));
                }
                let call = Call { id: id.clone(), key, run };
                if chance.below(4) > 0 {
                    call.report().await;
                } else if tokio::time::timeout(chance.micros(4000), call.report()).await.is_err() {
                    tell(&format!("left {id}"));
                }
            }
            tell(&format!("looped {id}"));
        });
    }
}

/// Numbers that look random and are the same for the same seed (xorshift).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub(crate) fn micros(&mut self, end: u64) -> Duration {
        Duration::from_micros(self.below(end))
    }
}

/// The work of a call.
struct Work {
    id: String,
    key: String,
    /// How long its value is at least.
    length: usize,
    end: End,
    has_child: bool,
    journal: Journal,
}

/// When a work ends.
enum End {
    Now,
    After(Duration),
    Told(oneshot::Receiver<()>),
}

impl Work {
    async fn run(self, lease: Lease) -> Result<String, String> {
        let Work { id, key, length, end, has_child, journal } = self;
        let token = lease.token().as_u64();
        journal.start(&key, token);
        tell(&format!("start {id} {token}"));
        if has_child {
            #[allow(clippy::zombie_processes, reason = "it outlives this process, and is the scenario's to end")]
            let child = lease.spawn(std::process::Command::new("sleep").arg("60")).unwrap();
            tell(&format!("child {id} {}", child.id()));
        }
        match end {
            End::Now => tokio::task::yield_now().await,
            // tidy: the work takes so long.
            End::After(pause) => tokio::time::sleep(pause).await,
            End::Told(mut told) => tokio::select! {
                told = &mut told => told.unwrap(),
                () = lease.lost() => {
                    journal.lost(&key, token);
                    tell(&format!("lost {id} {token}"));
                    told.await.unwrap();
                }
            },
        }
        journal.end(&key, token);
        Ok(value(&key, token, std::process::id(), length))
    }
}

/// What the work of a flight returns: it names the flight, so that it can be told from every other one's.
pub(crate) fn value(key: &str, token: u64, pid: u32, length: usize) -> String {
    let name = format!("{key}/{token}/{pid}");
    if length == 0 { name } else { format!("{name}/{}", "x".repeat(length)) }
}

impl Call {
    async fn report(self) {
        let Call { id, key, run } = self;
        match run.await {
            Ok(Flight { value, joined, token }) => {
                // A long value is told by its beginning and its length.
                let shown = if value.len() < 200 { value } else { format!("{value:.60}…{}", value.len()) };
                let role = if joined { "joined" } else { "led" };
                tell(&format!("landed {id} {} {role} {key} {shown}", token.as_u64()));
            }
            Err(error) => tell(&format!("failed {id} {}", describe(&error))),
        }
    }
}

/// The variant's name, the token (0 where there is none), and the text.
fn describe(error: &RunError) -> String {
    let debug = format!("{error:?}");
    let name = debug.split([' ', '(', '{']).next().unwrap_or_default();
    let token = match error {
        RunError::Interrupted { token, .. } | RunError::Failed { token, .. } => token.as_u64(),
        RunError::LeaseLost(lost) => lost.token().as_u64(),
        _ => 0,
    };
    format!("{name} {token} {error}")
}

async fn status(flights: &SingleFlight<String>) -> String {
    let status = flights.status().await;
    let report = status.report;
    let epoch = report.as_ref().map_or(0, |report| report.epoch.get());
    let flying = report.as_ref().map_or(0, |report| report.flights.len());
    let joiners: usize = report.iter().flat_map(|report| &report.flights).map(|flight| flight.joiners).sum();
    format!("status {epoch} {} {flying} {joiners}", status.pid.unwrap_or(0))
}

/// The first line may come behind the test runner's words, so that each has a mark.
fn tell(line: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "@{line}").unwrap();
    stdout.flush().unwrap();
}
