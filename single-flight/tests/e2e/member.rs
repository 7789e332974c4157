//! A member of a group, as its scenario sees it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::DEADLINE;
use crate::journal::Journal;

pub(crate) const DIRECTORY: &str = "FLIGHT_E2E_DIRECTORY";
pub(crate) const JOURNAL: &str = "FLIGHT_E2E_JOURNAL";

/// The handle of a member. Clones are the same member.
#[derive(Clone)]
pub(crate) struct Member {
    pid: u32,
    journal: Journal,
    errors: PathBuf,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    command: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What was told to it, and what it told, in the order in which the scenario saw it.
    transcript: Vec<String>,
    /// What it told and nobody has waited for yet.
    unheard: Vec<String>,
    /// Everything that it told.
    heard: Vec<String>,
}

impl Member {
    pub(crate) fn start(directory: &Path, journal: &Journal, errors: PathBuf) -> Member {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "inside::a_member_of_a_group", "--nocapture", "--test-threads=1"]);
        command.env(DIRECTORY, directory).env(JOURNAL, &journal.0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&errors).unwrap());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The first one may come behind the test runner's words.
                if let Some((_, line)) = line.split_once('@')
                    && sender.send(line.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        let pid = child.id();
        let command = format!("{command:?}");
        let (transcript, unheard, heard) = (Vec::new(), Vec::new(), Vec::new());
        let inner = Inner { command, child, stdin, lines, transcript, unheard, heard };
        Member { pid, journal: journal.clone(), errors, inner: Arc::new(Mutex::new(inner)) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Tells it a command of `inside.rs`.
    pub(crate) fn tell(&self, command: &str) {
        let mut inner = self.inner();
        inner.transcript.push(format!("> {command}"));
        writeln!(inner.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    /// Waits until it tells a line that begins with these words, and returns the words after them.
    #[track_caller]
    pub(crate) fn hear(&self, words: &str) -> Vec<String> {
        self.hear_any(&[words])
    }

    /// Waits until it tells a line that begins with one of these, and returns the words after it.
    #[track_caller]
    pub(crate) fn hear_any(&self, starts: &[&str]) -> Vec<String> {
        let begun = Instant::now();
        let mut inner = self.inner();
        loop {
            for (at, line) in inner.unheard.iter().enumerate() {
                let rest = starts.iter().find_map(|start| line.strip_prefix(start));
                if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
                    let words = rest.split_whitespace().map(str::to_owned).collect();
                    inner.unheard.remove(at);
                    return words;
                }
            }
            match inner.lines.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
                Ok(line) => inner.note(line),
                Err(error) => panic!("process {} never told {starts:?}: {error}", self.pid),
            }
        }
    }

    /// The number behind these words.
    #[track_caller]
    pub(crate) fn hear_number(&self, words: &str) -> u64 {
        self.hear(words)[0].parse().unwrap()
    }

    /// Everything that it has told so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        let mut inner = self.inner();
        inner.drain();
        inner.heard.clone()
    }

    /// Whether it has told a line that begins with these words, and nobody waited for it.
    pub(crate) fn has_told(&self, words: &str) -> bool {
        let mut inner = self.inner();
        inner.drain();
        inner.unheard.iter().any(|line| line.starts_with(words))
    }

    /// Calls, and waits for the value. Returns its token.
    #[track_caller]
    pub(crate) fn calls(&self, id: &str, key: &str) -> u64 {
        self.tell(&format!("call {id} 0 {key} now"));
        self.hear_number(&format!("landed {id}"))
    }

    /// Calls with a work that holds, and waits until it runs. Returns its token.
    #[track_caller]
    pub(crate) fn leads(&self, id: &str, key: &str) -> u64 {
        self.tell(&format!("call {id} 0 {key} hold"));
        self.hear_number(&format!("start {id}"))
    }

    /// Calls, and waits until it has joined the flight of this token.
    #[track_caller]
    pub(crate) fn joins(&self, id: &str, key: &str, token: u64) {
        self.tell(&format!("call {id} 0 {key} now"));
        assert_eq!(self.hear_number(&format!("joined {id}")), token, "it joined another flight");
    }

    /// What its handle knows: see `status` of `inside.rs`.
    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        self.tell("status 0");
        let words = self.hear("status");
        let number = |at: usize| words[at].parse().unwrap();
        Status { epoch: number(0), coordinator: number(1), flights: number(2), joiners: number(3) }
    }

    /// Freezes it, and returns when it is frozen.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let (_, status) = waitpid(Some(self.id()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "process {} ended: {status:?}", self.pid);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it, and returns when it is dead. It is frozen first, so that the journal knows what it had started and when it ended: from
    /// that line on it does nothing, and only after it another process can have its locks.
    pub(crate) fn kill(&self) {
        self.freeze();
        self.kill_frozen();
    }

    /// The same, of a process that is frozen already.
    pub(crate) fn kill_frozen(&self) {
        self.journal.killed(self.pid);
        self.kill_idle();
    }

    /// Kills a process that runs no work.
    pub(crate) fn kill_idle(&self) {
        let mut inner = self.inner();
        inner.transcript.push("SIGKILL".to_owned());
        inner.child.kill().unwrap();
        assert_eq!(inner.child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    /// Waits until it has ended by itself, which must be with success.
    #[track_caller]
    pub(crate) fn ends(&self) {
        let begun = Instant::now();
        let mut inner = self.inner();
        // Its standard output ends with it, so that this wait has a limit.
        while let Ok(line) = inner.lines.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
            inner.note(line);
        }
        assert!(begun.elapsed() < DEADLINE, "process {} does not end", self.pid);
        let status = inner.child.wait().unwrap();
        assert!(status.success(), "process {}: {status}", self.pid);
    }

    fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid).unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        self.inner().transcript.push(format!("signal {}", signal.as_raw()));
        kill_process(self.id(), signal).unwrap();
    }

    /// Everything that somebody who looks for a mistake would like to see.
    pub(crate) fn report(&self) -> String {
        let errors = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let mut inner = self.inner();
        inner.drain();
        let Inner { command, transcript, .. } = &*inner;
        let transcript = transcript.join("\n    ");
        format!("process {}: {command}\n    {transcript}\n  standard error:\n{errors}", self.pid)
    }
}

impl Inner {
    fn note(&mut self, line: String) {
        self.transcript.push(format!("  {line}"));
        self.unheard.push(line.clone());
        self.heard.push(line);
    }

    fn drain(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.note(line);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It may be dead already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a member knows of its coordinator.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) epoch: u32,
    /// Its process id, or 0.
    pub(crate) coordinator: u32,
    pub(crate) flights: u32,
    pub(crate) joiners: u32,
}
