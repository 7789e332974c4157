//! What the tests with real processes have in common: a directory of its own for each, and processes whose output is read while
//! they run.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

use std::fmt::Debug;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing takes so long, on the slowest machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for something to be seen.
pub(crate) fn until<T: Debug>(what: &str, mut look: impl FnMut() -> Result<(), T>) {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(()) => return,
            Err(seen) => assert!(begun.elapsed() < DEADLINE, "{what}: not seen in {DEADLINE:?}; last seen: {seen:#?}"),
        }
        // tidy: a pause between two looks.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Like [`until`], for a question.
pub(crate) fn until_true(what: &str, mut look: impl FnMut() -> bool) {
    until(what, || if look() { Ok(()) } else { Err("no") });
}

/// A folder with a directory of flights in it.
pub(crate) struct World {
    folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        World { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn flights(&self) -> PathBuf {
        self.path("flights")
    }

    /// `flight`, in the folder, with its directory named by the environment.
    pub(crate) fn flight(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flight"));
        command.args(args).current_dir(self.folder.path());
        for name in ["FLIGHT_LINEAGE", "FLIGHT_KEY", "FLIGHT_TOKEN", "FLIGHT_EPOCH"] {
            command.env_remove(name);
        }
        command.env("FLIGHT_DIR", self.flights()).env("FLIGHT", env!("CARGO_BIN_EXE_flight")).stdin(Stdio::null());
        command
    }

    /// `flight run KEY -- sh -c SCRIPT`.
    pub(crate) fn run(&self, key: &str, script: &str) -> Command {
        self.flight(&["run", key, "--", "sh", "-c", script])
    }

    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The lines of a file to which each run appends.
    pub(crate) fn lines(&self, name: &str) -> usize {
        self.read(name).lines().count()
    }

    pub(crate) fn status(&self) -> Value {
        let output = self.flight(&["status", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("status: {output:?}"))
    }

    /// What `status` tells of a key's flight.
    pub(crate) fn flight_of(&self, key: &str) -> Option<Value> {
        let status = self.status();
        status["report"]["flights"].as_array()?.iter().find(|flight| flight["key"] == key).cloned()
    }

    /// Waits until so many have joined the flight of a key.
    pub(crate) fn joined(&self, key: &str, count: usize) {
        until("joined", || match self.flight_of(key) {
            Some(flight) if flight["joiner_pids"].as_array().is_some_and(|pids| pids.len() == count) => Ok(()),
            other => Err(other),
        });
    }

    /// Waits until so many wait for a key without a flight.
    pub(crate) fn waiting(&self, key: &str, count: usize) {
        until("waiting", || {
            let status = self.status();
            let keys = status["report"]["waiting"].as_array().cloned().unwrap_or_default();
            let found = keys.iter().any(|waiting| {
                waiting["key"] == key && waiting["pids"].as_array().is_some_and(|pids| pids.len() == count)
            });
            if found { Ok(()) } else { Err(status) }
        });
    }

    /// The spools that are there.
    pub(crate) fn spools(&self) -> Vec<String> {
        let Ok(files) = fs::read_dir(self.flights().join("spools")) else { return Vec::new() };
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).filter(|name| name != "doors").collect()
    }
}

/// A process that runs, and what it has written.
pub(crate) struct Going {
    child: Child,
    out: Arc<Mutex<Vec<u8>>>,
    err: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Going {
    pub(crate) fn start(command: &mut Command) -> Going {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (Arc::default(), Arc::default());
        let readers = vec![
            collect(child.stdout.take().unwrap(), Arc::clone(&out)),
            collect(child.stderr.take().unwrap(), Arc::clone(&err)),
        ];
        Going { child, out, err, readers }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned()
    }

    pub(crate) fn signal(&self, signal: i32) {
        signal_to(self.pid(), signal);
    }

    /// Stops it, and waits until all its threads have stopped: the first to run stops the others.
    pub(crate) fn stop(&self) {
        self.signal(STOP);
        until("stopped", || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            let states: Vec<String> = threads.map(|thread| state(&thread.unwrap().path())).collect();
            if states.iter().all(|state| state == "T") { Ok(()) } else { Err(states) }
        });
    }

    /// Waits until its standard output holds the text.
    pub(crate) fn says(&self, text: &str) {
        until(&format!("{text:?} on stdout"), || {
            let out = self.out();
            if out.contains(text) { Ok(()) } else { Err((out, self.err())) }
        });
    }

    /// Waits until its standard error holds the text.
    pub(crate) fn complains(&self, text: &str) {
        until(&format!("{text:?} on stderr"), || {
            let err = self.err();
            if err.contains(text) { Ok(()) } else { Err(err) }
        });
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn end(mut self) -> Ended {
        let mut status = None;
        until("its end", || {
            status = self.child.try_wait().unwrap();
            if status.is_some() { Ok(()) } else { Err((self.out(), self.err())) }
        });
        for reader in self.readers.drain(..) {
            until_true("the ends of its streams", || reader.is_finished());
            reader.join().unwrap();
        }
        let status = status.unwrap();
        Ended { code: status.code(), signal: status.signal(), out: self.out(), err: self.err() }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            signal_to(self.pid(), 18);
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn collect(mut pipe: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = pipe.read(&mut buffer) {
            if length == 0 {
                return;
            }
            into.lock().unwrap().extend_from_slice(&buffer[..length]);
        }
    })
}

pub(crate) fn signal_to(pid: u32, signal: i32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let signal = rustix::process::Signal::from_named_raw(signal).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Ended {
    Going::start(command).end()
}

pub(crate) const HUP: i32 = 1;
pub(crate) const INT: i32 = 2;
pub(crate) const QUIT: i32 = 3;
pub(crate) const KILL: i32 = 9;
pub(crate) const TERM: i32 = 15;
pub(crate) const CONT: i32 = 18;
const STOP: i32 = 19;

/// A script that waits for a file of that name.
pub(crate) fn wait_for(name: &str) -> String {
    format!("until [ -e {name} ]; do sleep 0.02; done")
}

/// Whether a process is there. One that has ended and was not waited for is not.
pub(crate) fn is_alive(pid: u32) -> bool {
    !["", "Z", "X"].contains(&&*state(&PathBuf::from(format!("/proc/{pid}"))))
}

/// The letter of a process or thread. Nothing: there is none.
fn state(of: &Path) -> String {
    let stat = fs::read_to_string(of.join("stat")).unwrap_or_default();
    stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or_default().to_owned()
}
