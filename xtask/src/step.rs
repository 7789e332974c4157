//! One call of cargo that must end well, and in time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often a running step is looked at. Short against every step, long against the cost of a look.
const LOOK: Duration = Duration::from_millis(20);

/// A call of cargo, with the time that it may take.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    args: Vec<OsString>,
    environment: Vec<(&'static str, &'static str)>,
    limit: Duration,
}

impl Step {
    pub(crate) fn cargo<A: AsRef<OsStr>>(
        name: impl Into<String>,
        limit: Duration,
        args: impl IntoIterator<Item = A>,
    ) -> Step {
        Step {
            name: name.into(),
            args: args.into_iter().map(|arg| arg.as_ref().to_owned()).collect(),
            environment: Vec::new(),
            limit,
        }
    }

    pub(crate) fn with_env(mut self, name: &'static str, value: &'static str) -> Step {
        self.environment.push((name, value));
        self
    }

    /// What to type to run this step alone.
    pub(crate) fn command_line(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.environment {
            line.push_str(&format!("{name}={} ", quoted(value)));
        }
        line.push_str("cargo");
        for arg in &self.args {
            line.push(' ');
            line.push_str(&quoted(&arg.to_string_lossy()));
        }
        line
    }

    /// Runs it in `root`, with this process's standard streams.
    ///
    /// # Errors
    ///
    /// A message that says how it ended, and what to type to repeat it.
    pub(crate) fn run(&self, root: &Path) -> Result<(), String> {
        let begun = Instant::now();
        let ended = self.wait(root);
        let seconds = begun.elapsed().as_secs_f64();
        let how = match ended {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => format!("failed after {seconds:.1} s ({status})"),
            Ok(None) => format!(
                "was stopped after {seconds:.1} s, its limit: it hangs, or the limit is too low for this machine (processes \
                 that it had started may still run)"
            ),
            Err(error) => format!("could not be run: {error}"),
        };
        Err(format!("{} {how}; to repeat it:\n    {}", self.name, self.command_line()))
    }

    fn wait(&self, root: &Path) -> Result<Option<ExitStatus>, io::Error> {
        // The cargo that runs this program, not the first one on the path: the two may be of different toolchains.
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut child =
            Command::new(cargo).args(&self.args).envs(self.environment.iter().copied()).current_dir(root).spawn()?;
        wait_within(&mut child, self.limit)
    }
}

/// The status, or `None` when the limit passed and it was killed.
fn wait_within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, io::Error> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// `word` as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_line_to_repeat_it_is_ready_for_a_shell() {
        let step = Step::cargo("docs", MINUTE, ["doc", "--no-deps", "it's"]).with_env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(step.command_line(), r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'",);
    }

    #[test]
    fn a_step_that_ends_well_is_well() {
        let step = Step::cargo("version", MINUTE, ["--version"]);
        assert_eq!(step.run(Path::new(".")), Ok(()));
    }

    #[test]
    fn a_step_that_fails_says_how_to_repeat_it() {
        let step = Step::cargo("wrong", MINUTE, ["--no-such-option-of-cargo"]);
        let message = step.run(Path::new(".")).expect_err("cargo refuses it");
        assert!(message.starts_with("wrong failed after"), "{message}");
        assert!(message.ends_with("    cargo --no-such-option-of-cargo"), "{message}");
    }

    /// Set for the process that [`a_step_that_takes_too_long_is_stopped`] starts from this same binary.
    const HANGS: &str = "XTASK_TEST_HANGS";

    #[test]
    fn a_step_that_takes_too_long_is_stopped() {
        if env::var_os(HANGS).is_some() {
            // Nobody writes to it, and its other end is open as long as the test below runs.
            let _ = io::stdin().read_line(&mut String::new());
            return;
        }
        let mut child = Command::new(env::current_exe().expect("the path of this test"))
            .args(["--exact", "step::tests::a_step_that_takes_too_long_is_stopped"])
            .env(HANGS, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this binary runs");
        // `Child::wait` closes the pipe to be helpful, and the child must not end by that.
        let open = child.stdin.take();
        let ended = wait_within(&mut child, Duration::from_millis(50)).expect("it can be waited for");
        drop(open);
        assert_eq!(ended, None);
        assert!(child.try_wait().expect("it is gone").is_some_and(|status| !status.success()));
    }
}
