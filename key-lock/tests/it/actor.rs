//! Other processes that take part in a test: this binary again, told to run the same test in another role.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use super::DEADLINE;

const ROLE: &str = "FLIGHT_TEST_ROLE";
const DIRECTORY: &str = "FLIGHT_TEST_DIRECTORY";

/// In a process that was started for this role: plays it, and ends the process. Elsewhere: does nothing.
///
/// Call it first in a test. A role talks to its test through [`say`] and [`heed`].
pub(crate) fn role(name: &str, play: impl FnOnce(&Path)) {
    if std::env::var_os(ROLE).is_some_and(|role| role == name) {
        play(&PathBuf::from(std::env::var_os(DIRECTORY).expect("a role is given a directory")));
        std::process::exit(0);
    }
}

/// Tells the test something: on the standard error, which the test runner does not write to.
pub(crate) fn say(word: &str) {
    std::io::stderr().write_all(format!("{word}\n").as_bytes()).expect("the test listens");
}

/// Waits for the test's next line. Unbuffered, so that a child of the role finds the rest.
pub(crate) fn heed() {
    let mut byte = [0];
    while std::io::stdin().lock().read(&mut byte).expect("a readable standard input") == 1 && byte != *b"\n" {}
}

/// A process that plays a role. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Actor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Actor {
    /// Runs the test of this full name (`module::function`) in another process.
    pub(crate) fn start(test: &str, role: &str, directory: &Path) -> Actor {
        Actor::start_by(&[], test, role, directory)
    }

    /// With another command before it, as `unshare`.
    pub(crate) fn start_by(prefix: &[&str], test: &str, role: &str, directory: &Path) -> Actor {
        let this = std::env::current_exe().expect("the path of this test");
        let mut command = match prefix {
            [] => Command::new(&this),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&this);
                command
            }
        };
        // Besides the thread of the test, only the runner's, which waits for it: a role may fork.
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(DIRECTORY, directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take();
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Actor { child, stdin, lines, heard: Vec::new() }
    }

    /// Waits until the role says this.
    pub(crate) fn hear(&mut self, word: &str) {
        let found = self.hear_first(word);
        assert_eq!(found, word);
    }

    /// Waits for a line that begins with this, and returns the line.
    pub(crate) fn hear_first(&mut self, word: &str) -> String {
        let started = Instant::now();
        loop {
            match self.lines.recv_timeout(DEADLINE.saturating_sub(started.elapsed())) {
                Ok(line) if line.starts_with(word) => return line,
                Ok(line) => self.heard.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("never said {word:?}, only:\n{}", self.heard.join("\n")),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("ended without saying {word:?}, only:\n{}", self.heard.join("\n"))
                }
            }
        }
    }

    /// Waits for the next word of the role, whatever it is.
    pub(crate) fn hear_any(&mut self) -> String {
        self.hear_first("")
    }

    /// Lets [`heed`] return in the role.
    pub(crate) fn nod(&mut self) {
        self.stdin.as_mut().expect("still open").write_all(b"\n").expect("the role listens");
    }

    /// Sends SIGKILL and waits until the process is gone; what it started lives on. The test keeps the other end of its standard
    /// input.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a process that can be killed");
        self.child.wait().expect("its end");
    }

    /// Ends whatever reads the role's standard input.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    /// Waits for the end of the role, which must be a good one.
    pub(crate) fn succeeds(mut self) {
        self.close_stdin();
        let status = self.end();
        self.heard.extend(self.lines.try_iter());
        assert!(status.success(), "{status}:\n{}", self.heard.join("\n"));
    }

    fn end(&mut self) -> ExitStatus {
        // The pipe is closed at the end of the process, so that this wait has the deadline.
        let started = Instant::now();
        loop {
            match self.lines.recv_timeout(DEADLINE.saturating_sub(started.elapsed())) {
                Ok(line) => self.heard.push(line),
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().expect("its end"),
                Err(RecvTimeoutError::Timeout) => panic!("does not end, said:\n{}", self.heard.join("\n")),
            }
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
