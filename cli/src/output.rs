//! What this process writes: the command's bytes to its own streams, and its own words to standard error.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use crate::platform;
use crate::spool::Stream;

/// Says something on standard error, in one write, so that the lines of several processes do not mix.
pub(crate) fn say(words: impl fmt::Display) {
    let line = format!("flight: {words}\n");
    // There is nobody else to tell.
    drop(io::stderr().write_all(line.as_bytes()));
}

/// The last line of the terminal, which a spinner and the command's output share.
#[derive(Clone, Debug)]
pub(crate) struct Spinner {
    shared: Arc<Mutex<Shown>>,
    is_wanted: bool,
}

#[derive(Debug, Default)]
struct Shown {
    is_drawn: bool,
    /// Whether the command's last byte ended no line: then there is no room for a spinner.
    is_in_line: bool,
    turns: usize,
}

impl Spinner {
    pub(crate) fn new(quiet: bool) -> Spinner {
        Spinner { shared: Arc::default(), is_wanted: !quiet && io::stderr().is_terminal() }
    }

    /// Whether there is a terminal that wants one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    pub(crate) fn draw(&self, words: impl fmt::Display) {
        const SIGNS: [char; 4] = ['|', '/', '-', '\\'];
        let mut shown = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_in_line {
            return;
        }
        shown.turns += 1;
        shown.is_drawn = true;
        let line = format!("\r\x1b[K{} {words}", SIGNS[shown.turns % SIGNS.len()]);
        drop(io::stderr().write_all(line.as_bytes()));
    }

    /// Takes it from the screen.
    pub(crate) fn clear(&self) {
        let mut shown = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        Spinner::erase(&mut shown);
    }

    fn erase(shown: &mut Shown) {
        if shown.is_drawn {
            shown.is_drawn = false;
            drop(io::stderr().write_all(b"\r\x1b[K"));
        }
    }
}

/// The two streams of this process.
#[derive(Debug)]
pub(crate) struct Output {
    files: [File; 2],
    failed: [Option<io::Error>; 2],
    spinner: Spinner,
}

impl Output {
    pub(crate) fn new(spinner: Spinner) -> io::Result<Output> {
        Ok(Output { files: platform::own_streams()?, failed: [None, None], spinner })
    }

    /// The same streams again.
    pub(crate) fn duplicate(&self) -> io::Result<Output> {
        Output::new(self.spinner.clone())
    }

    /// Writes it all, however slow the reader is. A stream that failed once is left alone: the command and the others must not
    /// be disturbed by it.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let which = stream as usize - 1;
        if self.failed[which].is_some() {
            return;
        }
        if self.spinner.is_wanted {
            let mut shown = self.spinner.shared.lock().unwrap_or_else(PoisonError::into_inner);
            Spinner::erase(&mut shown);
            shown.is_in_line = bytes.last() != Some(&b'\n');
        }
        let (mut file, mut rest) = (&self.files[which], bytes);
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => platform::wait_writable(file),
                Err(error) => {
                    self.failed[which] = Some(error);
                    return;
                }
            }
        }
    }

    /// What went wrong, if it is more than a reader that left.
    pub(crate) fn fault(&self) -> Option<String> {
        let name = |which| if which == 0 { "standard output" } else { "standard error" };
        self.failed.iter().enumerate().find_map(|(which, error)| {
            let error = error.as_ref().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
            Some(format!("cannot write the output to {}: {error}", name(which)))
        })
    }
}
