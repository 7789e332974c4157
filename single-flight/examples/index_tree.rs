//! Three processes want the index of one tree at the same moment, and the tree is read once. Then the one that reads it is killed, and then
//! the one that connects the others.
//!
//! ```sh
//! cargo run --release --example index_tree [DIRECTORY]     # without one: this workspace
//! ```
//!
//! The first process is the narrator: it starts the others, which are this program again (`member`), tells them on their standard input to
//! `call`, `finish` or say who is the `coordinator`, and reads what they say, one line of JSON each. A work stops half-way until it is told to
//! finish, so that everybody has arrived by then, also where the tree is small and the machine fast.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use single_flight::{FencingToken, Lease, RunError, SingleFlight};

type Anything = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Anything> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => narrate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")),
        ["member", flights, tree] => member(flights, tree),
        [tree] => narrate(Path::new(tree)),
        _ => Err("usage: index_tree [DIRECTORY]".into()),
    }
}

// ---- the work

/// The value of a flight. Whoever joins gets the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    files: usize,
    bytes: usize,
    /// SHA-256 over the names and digests of all files.
    root: String,
    slowest: PathBuf,
    took: Duration,
}

/// Reads every file. The lease comes along, so that the key stays ours while we read, whatever becomes of the call.
fn index(tree: &Path, lease: &Lease, half_way: impl FnOnce(usize)) -> Result<Report, Anything> {
    let mut files = Vec::new();
    list(tree, &mut files)?;
    files.sort();
    let (mut root, mut bytes, mut half_way) = (Sha256::new(), 0, Some(half_way));
    let (mut slowest, mut took) = (PathBuf::new(), Duration::ZERO);
    for (number, path) in files.iter().enumerate() {
        // Somebody replaced the directory of the flights: another process may be at it as well.
        lease.check()?;
        if number == files.len() / 2
            && let Some(half_way) = half_way.take()
        {
            half_way(number);
        }
        let begun = Instant::now();
        let content = std::fs::read(path)?;
        bytes += content.len();
        root.update(path.strip_prefix(tree)?.as_os_str().as_encoded_bytes());
        root.update(Sha256::digest(&content));
        if begun.elapsed() > took {
            (slowest, took) = (path.strip_prefix(tree)?.to_owned(), begun.elapsed());
        }
    }
    let root = root.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok(Report { files: files.len(), bytes, root, slowest, took })
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
            list(&entry.path(), files)?;
        }
    }
    Ok(())
}

// ---- a process that calls

/// What a member tells the narrator.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    Ready,
    Leads { token: FencingToken, waited: Duration },
    HalfWay { files: usize },
    Joined { token: FencingToken, pid: u32 },
    Landed { token: FencingToken, joined: bool, after: Duration, report: Report },
    Interrupted { token: FencingToken },
    Failed { error: String },
    Coordinator { pid: Option<u32> },
}

fn say(said: &Said) {
    println!("{}", serde_json::to_string(said).expect("plain data"));
}

fn member(flights: &str, tree: &str) -> Result<(), Anything> {
    let runtime = tokio::runtime::Runtime::new()?;
    let flights = SingleFlight::<Report>::open(flights)?;
    let (finish, finished) = mpsc::channel();
    let finished = Arc::new(Mutex::new(finished));
    say(&Said::Ready);
    for command in io::stdin().lines() {
        match command?.as_str() {
            "call" => drop(runtime.spawn(call(flights.clone(), tree.to_owned(), finished.clone()))),
            "finish" => finish.send(())?,
            "coordinator" => say(&Said::Coordinator { pid: runtime.block_on(flights.status()).pid }),
            other => return Err(format!("what is {other:?}?").into()),
        }
    }
    Ok(())
}

/// One call: everything that this example is about.
async fn call(flights: SingleFlight<Report>, tree: String, finished: Arc<Mutex<mpsc::Receiver<()>>>) {
    let called = Instant::now();
    let key = format!("index {tree}");
    let work = move |lease: Lease| async move {
        say(&Said::Leads { token: lease.token(), waited: called.elapsed() });
        let half_way = move |files| {
            say(&Said::HalfWay { files });
            // The narrator lets us go on, or is gone.
            let _ = finished.lock().map(|finished| finished.recv());
        };
        tokio::task::spawn_blocking(move || index(Path::new(&tree), &lease, half_way)).await?
    };
    let result = flights
        .run(key, work)
        .on_join(|joined| say(&Said::Joined { token: joined.token, pid: joined.pid }))
        .wait_timeout(Duration::from_secs(60))
        .await;
    say(&match result {
        Ok(flight) => {
            let after = called.elapsed();
            Said::Landed { token: flight.token, joined: flight.joined, after, report: flight.value }
        }
        Err(RunError::Interrupted { token, .. }) => Said::Interrupted { token },
        Err(error) => Said::Failed { error: error.to_string() },
    });
}

// ---- the narrator

struct Member {
    name: char,
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Member {
    fn tell(&mut self, command: &str) -> io::Result<()> {
        writeln!(self.stdin, "{command}")
    }

    fn hear(&mut self) -> Result<Said, Anything> {
        let line = self.lines.next().ok_or_else(|| format!("{self} has ended"))??;
        match serde_json::from_str(&line)? {
            Said::Failed { error } => Err(format!("{self}: {error}").into()),
            said => Ok(said),
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: it has no chance to say or clean up anything.
    fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{} (process {})", self.name, self.pid()))
    }
}

struct Stage {
    flights: PathBuf,
    tree: PathBuf,
    names: std::ops::RangeInclusive<char>,
}

impl Stage {
    fn enter(&mut self) -> Result<Member, Anything> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("member")
            .args([&self.flights, &self.tree])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
        let name = self.names.next().ok_or("no name is left")?;
        let mut member = Member { name, child, stdin, lines: BufReader::new(stdout).lines() };
        let _ready = member.hear()?;
        Ok(member)
    }
}

/// Lets all call at the same moment, and returns when one of them leads and is half-way, and the others have joined: the leader first.
fn take_off(members: &mut Vec<Member>) -> Result<FencingToken, Anything> {
    for member in &mut *members {
        member.tell("call")?;
    }
    let mut flight = None;
    for at in 0..members.len() {
        match members[at].hear()? {
            Said::Leads { token, waited } => {
                let Said::HalfWay { files } = members[at].hear()? else { return Err("it is not half-way".into()) };
                let waited = waited.as_secs_f64() * 1e3;
                println!(
                    "   {:<19} leads   flight {token} after {waited:.1} ms, and is half-way: {files} files",
                    members[at]
                );
                members.swap(0, at);
                flight = Some(token);
            }
            Said::Joined { token, pid } => {
                println!("   {:<19} joined  flight {token}, which process {pid} leads", members[at]);
            }
            other => return Err(format!("{other:?} is out of place").into()),
        }
    }
    flight.ok_or_else(|| "nobody leads".into())
}

/// Lets the leader, who is first, finish. All get the same report.
fn land(members: &mut [Member]) -> Result<Report, Anything> {
    members[0].tell("finish")?;
    let mut reports = Vec::new();
    for member in members {
        let said = member.hear()?;
        let Said::Landed { token, joined, after, report } = said else {
            return Err(format!("{said:?} is out of place").into());
        };
        let role = if joined { "joined" } else { "led" };
        let after = after.as_secs_f64() * 1e3;
        println!("   {member:<19} {role:<7} flight {token}: its report came {after:.1} ms after the call");
        reports.push(report);
    }
    if reports.iter().any(|report| *report != reports[0]) {
        return Err("they have different reports".into());
    }
    Ok(reports.swap_remove(0))
}

fn narrate(tree: &Path) -> Result<(), Anything> {
    let home = tempfile::tempdir()?;
    let mut stage = Stage { flights: home.path().join("flights"), tree: tree.canonicalize()?, names: 'A'..='Z' };

    println!("1. Three processes want the index of {} at the same moment\n", stage.tree.display());
    let mut members = vec![stage.enter()?, stage.enter()?, stage.enter()?];
    let first = take_off(&mut members)?;
    let Report { files, bytes, root, slowest, took } = land(&mut members)?;
    println!("\n   {files} files, {bytes} bytes, read once; root digest {}…", &root[..16]);
    println!("   the slowest was {} with {:.2} ms\n", slowest.display(), took.as_secs_f64() * 1e3);

    println!("2. The leader is killed in mid-work\n");
    let second = take_off(&mut members)?;
    println!("   {:<19} is killed", members[0]);
    let killed = Instant::now();
    members.remove(0).kill()?;
    for member in &mut members {
        let Said::Interrupted { token } = member.hear()? else { return Err("it was not interrupted".into()) };
        println!("   {member:<19} hears   that flight {token} was interrupted, {:.1} ms later", ms_since(killed));
    }
    println!("\n   Both call again:\n");
    let third = take_off(&mut members)?;
    land(&mut members)?;
    if !(first < second && second < third) {
        return Err("the tokens do not grow".into());
    }
    println!(
        "\n   {second} < {third}: whatever the killed leader still has on its way, a fence can tell it from the new one's\n"
    );

    println!("3. The coordinator is killed in mid-work\n");
    members.push(stage.enter()?);
    members.push(stage.enter()?);
    members[0].tell("coordinator")?;
    let Said::Coordinator { pid: Some(pid) } = members[0].hear()? else { return Err("there is no coordinator".into()) };
    let at = members.iter().position(|member| member.pid() == pid).ok_or("the coordinator is none of us")?;
    let coordinator = members.remove(at);
    println!("   {coordinator:<19} is the coordinator, and does not call");
    let fourth = take_off(&mut members)?;
    println!("   {coordinator:<19} is killed");
    coordinator.kill()?;
    land(&mut members)?;
    println!("\n   The others elected another coordinator, and the flight {fourth} went on: its work ran once.");
    Ok(())
}

fn ms_since(instant: Instant) -> f64 {
    instant.elapsed().as_secs_f64() * 1e3
}
