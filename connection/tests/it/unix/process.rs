//! A party in a process of its own, so that it can be stopped and killed. The test binary runs itself for it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use flight_connection::{Connection, DisconnectReason, Event, Phase, Supervisor};
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process};

use crate::party::{DEADLINE, local, options, say};

const FOLDER: &str = "FLIGHT_CONNECTION_TEST_FOLDER";
const DESCRIPTORS: &str = "FLIGHT_CONNECTION_TEST_DESCRIPTORS";
const UMASK: &str = "FLIGHT_CONNECTION_TEST_UMASK";

/// The other process.
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
    pub(crate) passed: Vec<String>,
}

impl Process {
    pub(crate) fn start(folder: &Path) -> Process {
        Process::start_with(folder, |_| {})
    }

    /// With at most so many descriptors.
    pub(crate) fn start_with_descriptors(folder: &Path, descriptors: u64) -> Process {
        Process::start_with(folder, |command| {
            command.env(DESCRIPTORS, descriptors.to_string());
        })
    }

    pub(crate) fn start_with_umask(folder: &Path, umask: u32) -> Process {
        Process::start_with(folder, |command| {
            command.env(UMASK, umask.to_string());
        })
    }

    /// As another user. Only root can.
    pub(crate) fn start_as_user(folder: &Path, user: u32) -> Process {
        Process::start_with(folder, |command| {
            command.uid(user);
        })
    }

    /// In namespaces of its own, as in a container. `None` where that is not allowed or possible.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_in_namespaces(folder: &Path, namespaces: &[&str]) -> Option<Process> {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["--fork", "--kill-child"]);
        let mut possible = Command::new("unshare");
        possible.args(namespaces).args(["--fork", "--kill-child", "true"]).stderr(Stdio::null());
        if !possible.status().is_ok_and(|status| status.success()) {
            return None;
        }
        command.arg(std::env::current_exe().unwrap());
        Some(Process::run(command, folder))
    }

    fn start_with(folder: &Path, prepare: impl FnOnce(&mut Command)) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        prepare(&mut command);
        Process::run(command, folder)
    }

    fn run(mut command: Command, folder: &Path) -> Process {
        command.args(["--exact", "unix::process::a_party_in_a_process_of_its_own", "--nocapture"]);
        command.env(FOLDER, folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The first one may come behind the test harness's words.
                if let Some((_, line)) = line.split_once('@')
                    && sender.send(line.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Process { child, stdin, lines, passed: Vec::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap();
    }

    /// Waits for a line that begins like this; what follows.
    #[track_caller]
    pub(crate) fn until(&mut self, start: &str) -> String {
        let begun = Instant::now();
        loop {
            match self.lines.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
                Ok(line) => {
                    self.passed.push(line.clone());
                    if let Some(rest) = line.strip_prefix(start) {
                        return rest.trim().to_owned();
                    }
                }
                Err(error) => panic!("process {}: no {start:?} ({error}); what came: {:#?}", self.id(), self.passed),
            }
        }
    }

    /// Everything that was said and not yet waited for.
    pub(crate) fn drain(&mut self) -> Vec<String> {
        let lines: Vec<String> = self.lines.try_iter().collect();
        self.passed.extend(lines.iter().cloned());
        lines
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and returns when it is stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.id());
        let begun = Instant::now();
        while cfg!(target_os = "linux") {
            let stat = std::fs::read_to_string(&stat).unwrap();
            if stat.rsplit(')').next().unwrap().trim_start().starts_with('T') {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "it does not stop: {stat}");
            thread::yield_now();
        }
    }

    /// Kills it, and returns when it is dead.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    /// The processor time that it has used, in seconds.
    #[cfg(target_os = "linux")]
    pub(crate) fn processor_time(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Not a test of its own: does nothing unless a test runs it as another process.
#[test]
fn a_party_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    if let Ok(descriptors) = std::env::var(DESCRIPTORS) {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = Some(descriptors.parse::<u64>().unwrap());
        setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    }
    if let Ok(umask) = std::env::var(UMASK) {
        rustix::process::umask(Mode::from_raw_mode(umask.parse().unwrap()));
    }
    let (commands, mut commanded) = tokio::sync::mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if commands.send(line).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut supervisor = Supervisor::new(local(folder.as_ref()), options()).unwrap();
        supervisor.want(true);
        let mut connections: Vec<Connection> = Vec::new();
        loop {
            tokio::select! {
                event = supervisor.next() => report(event, &mut connections),
                command = commanded.recv() => match command.as_deref() {
                    // The test has ended.
                    None => return,
                    Some("close") => {
                        supervisor.close().await;
                        tell("closed");
                        return;
                    }
                    Some("umask") => {
                        let umask = rustix::process::umask(Mode::empty());
                        rustix::process::umask(umask);
                        tell(&format!("umask {:o}", umask.as_raw_mode()));
                    }
                    Some("resign") => supervisor.resign(),
                    Some("unwanted") => supervisor.want(false),
                    Some(command) => {
                        let text = command.strip_prefix("say ").unwrap();
                        connections.iter().for_each(|connection| say(connection, text));
                        tell(&format!("said {text}"));
                    }
                },
            }
        }
    });
}

fn report(event: Event, connections: &mut Vec<Connection>) {
    match event {
        Event::Elected(term) => tell(&format!("elected {}", term.epoch())),
        Event::Connected(connection) => {
            tell(&format!("connected {} {:?}", connection.peer().hello.epoch, connection.peer().pid));
            connections.push(connection);
        }
        Event::Accepted(connection) => {
            tell(&format!("accepted {:?}", connection.peer().pid));
            connections.push(connection);
        }
        Event::Frame(_, frame) => tell(&format!("frame {}", String::from_utf8_lossy(&frame.header))),
        Event::Disconnected(id, reason) => {
            connections.retain(|connection| connection.id() != id);
            let own = matches!(reason, DisconnectReason::Closed | DisconnectReason::TermEnded);
            tell(&format!("disconnected {} {reason}", if own { "ours" } else { "theirs" }));
        }
        Event::Deposed(reason) => tell(&format!("deposed {reason}")),
        Event::Failed(error) => tell(&format!("failed fatal={} {error}", error.is_fatal())),
        Event::Phase(phase) => match phase {
            Phase::NotAnswering { pid, .. } => tell(&format!("phase NotAnswering {pid:?}")),
            Phase::LockHeldWithoutSocket { .. } => tell("phase LockHeldWithoutSocket"),
            other => tell(&format!("phase {other:?}")),
        },
        other => tell(&format!("other {other:?}")),
    }
}

fn tell(line: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "@{line}").unwrap();
    stdout.flush().unwrap();
}
