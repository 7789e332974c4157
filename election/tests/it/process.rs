//! Other processes: this test binary, run again for one role.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use crate::DEADLINE;

/// The switches by which a run of this binary knows that it is a child.
pub(crate) const ROLE: &str = "FLIGHT_ELECTION_TEST_ROLE";
pub(crate) const FOLDER: &str = "FLIGHT_ELECTION_TEST_FOLDER";

/// Begins each line that a child says to its parent. (Standard output belongs to the test runner.)
const SAYS: &str = "child says: ";

/// In a child: tells the parent.
pub(crate) fn say(words: &str) {
    writeln!(io::stderr(), "{SAYS}{words}").expect("the parent listens");
}

/// In a child: waits for the parent's next line, or for its end.
pub(crate) fn wait_for_parent() {
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("standard input is a pipe");
}

/// A child. It is killed when dropped, so that a test that fails leaves nothing behind.
pub(crate) struct Process {
    role: String,
    child: Child,
    says: Receiver<String>,
}

impl Process {
    pub(crate) fn start(role: &str, folder: &Path) -> Process {
        Process::start_with(Command::new(env::current_exe().expect("this test has a binary")), role, folder)
    }

    /// Starts it in a mount namespace of its own, in which `prepare` (a shell script that finds the folder in `$FOLDER`) has
    /// run. `None` when this machine does not let us, which is said loudly.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_in_mount_namespace(prepare: &str, role: &str, folder: &Path) -> Option<Process> {
        let mut unshare = Command::new("unshare");
        // Who is not root becomes it in a user namespace, where the kernel allows that.
        if !rustix::process::geteuid().is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.arg("--mount");
        let mut probe = Command::new(unshare.get_program());
        probe.args(unshare.get_args()).args(["mount", "-t", "tmpfs", "tmpfs"]).arg(folder);
        match probe.output() {
            Ok(output) if output.status.success() => {}
            failed => {
                let why = failed.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
                let _ = writeln!(io::stderr(), "SKIPPED {role}: no mount namespace can be had here: {why:?}");
                return None;
            }
        }
        unshare.args(["sh", "-ec", &format!("FOLDER=${FOLDER}; {prepare}; exec \"$0\" \"$@\"")]);
        unshare.arg(env::current_exe().expect("this test has a binary"));
        Some(Process::start_with(unshare, role, folder))
    }

    fn start_with(mut command: Command, role: &str, folder: &Path) -> Process {
        let mut child = command
            .args(["--exact", "children::role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let errors = BufReader::new(child.stderr.take().expect("it was piped"));
        let (sender, says) = mpsc::channel();
        let name = role.to_owned();
        thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                match line.strip_prefix(SAYS) {
                    Some(words) => {
                        let _ = sender.send(words.to_owned());
                    }
                    // What a panic in the child says belongs into the report of the test.
                    None => {
                        let _ = writeln!(io::stderr(), "{name}: {line}");
                    }
                }
            }
        });
        Process { role: role.to_owned(), child, says }
    }

    /// What the child says next.
    #[track_caller]
    pub(crate) fn hear(&self) -> String {
        self.says
            .recv_timeout(DEADLINE)
            .unwrap_or_else(|error| panic!("the child {:?} says nothing: {error}", self.role))
    }

    /// The number that the child says next.
    #[track_caller]
    pub(crate) fn hear_number(&self) -> u32 {
        let words = self.hear();
        words.parse().unwrap_or_else(|error| panic!("the child {:?} says {words:?}: {error}", self.role))
    }

    /// Lets a child go on that is in [`wait_for_parent`].
    pub(crate) fn go_on(&mut self) {
        let input = self.child.stdin.as_mut().expect("it was piped");
        input.write_all(b"\n").expect("the child listens");
    }

    /// SIGKILL, and the end of the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is ours");
        let status = self.child.wait().expect("it is ours");
        assert!(!status.success(), "the child {:?} had ended before it was killed", self.role);
    }

    /// Waits for its good end.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        drop(self.child.stdin.take());
        // Its standard error ends when it does.
        match self.says.recv_timeout(DEADLINE) {
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => panic!("the child {:?} does not end", self.role),
            Ok(words) => panic!("the child {:?} says {words:?} although nobody asked", self.role),
        }
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "the child {:?} ended with {status}", self.role);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
