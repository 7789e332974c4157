//! Following a spool: from its beginning, live, to its end.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::output::Output;
use crate::spool::{CHUNK, Splitter, Stream};

/// As often as a spool that another process writes is looked at when nothing came for a while.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// What is known of a spool besides its bytes.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    until: Until,
    /// How often the writer, if it is in this process, has told of more.
    writes: u64,
}

/// How far to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Until {
    /// It grows still.
    #[default]
    Further,
    /// To this length.
    Length(u64),
    /// As far as it goes: nobody said where it ends, and nobody writes it any more.
    Whatever,
}

impl Progress {
    pub(crate) fn wrote(&self) {
        self.change(|state| state.writes += 1);
    }

    pub(crate) fn end(&self, until: Until) {
        self.change(|state| state.until = until);
    }

    pub(crate) fn until(&self) -> Until {
        self.read().until
    }

    fn read(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for a change since `seen`, or for `limit`.
    fn wait(&self, seen: State, limit: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |state: &mut State| state.writes == seen.writes && state.until == seen.until;
        drop(self.changed.wait_timeout_while(state, limit, same));
    }

    /// Waits a little for somebody else's deed.
    pub(crate) fn pause(&self, pause: &mut Duration) {
        *pause = (*pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.wait(self.read(), *pause);
    }
}

/// Copies a spool to the streams until it is told where it ends, and is there.
///
/// `tells` says whether the writer is in this process, and calls [`Progress::wrote`]. Returns what the run landed, if that was read too.
pub(crate) fn follow(mut spool: File, progress: &Progress, tells: bool, output: &mut Output) -> io::Result<Vec<u8>> {
    let mut landing = Vec::new();
    let mut buffer = vec![0; CHUNK];
    let mut splitter = Splitter::default();
    let mut position = 0;
    let mut pause = Duration::ZERO;
    loop {
        // Before the reading, so that a change during it is not slept over.
        let seen = progress.read();
        let room = match seen.until {
            Until::Length(length) => {
                buffer.len().min(usize::try_from(length.saturating_sub(position)).unwrap_or(usize::MAX))
            }
            Until::Further | Until::Whatever => buffer.len(),
        };
        let read = match spool.read(&mut buffer[..room]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read > 0 {
            position += read as u64;
            pause = Duration::ZERO;
            let is_spool = splitter.feed(&buffer[..read], |stream, piece| match stream {
                Stream::Out | Stream::Err => output.write(stream, piece),
                Stream::Landing => landing.extend_from_slice(piece),
            });
            if !is_spool {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold the records of a spool"));
            }
            continue;
        }
        match seen.until {
            Until::Length(length) if position < length => return Err(io::ErrorKind::UnexpectedEof.into()),
            Until::Length(_) | Until::Whatever => return Ok(landing),
            Until::Further if tells => progress.wait(seen, Duration::from_secs(60)),
            Until::Further => progress.pause(&mut pause),
        }
    }
}
