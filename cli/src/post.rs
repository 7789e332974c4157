//! What this process is about, as far as a signal is concerned: it waits, or a command of it runs.

use std::io;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::exit::End;
use crate::platform::{self, Received};

/// Who gets a signal.
#[derive(Debug, Default)]
pub(crate) struct Post {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The command, from its start until it was waited for.
    running: Option<u32>,
    /// The last signal that the terminal sent to the whole group.
    of_terminal: Option<i32>,
}

impl Post {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the command. A signal that comes meanwhile is handled after it: no signal falls between the two.
    pub(crate) fn start(&self, spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
        let mut state = self.state();
        let child = spawn()?;
        state.running = Some(child.id());
        Ok(child)
    }

    /// Waits for the command itself, whatever it left running.
    pub(crate) fn wait(&self, mut child: Child) -> io::Result<End> {
        platform::wait_for_end(&child);
        // No signal from here on: after the next step the number may be another's.
        self.state().running = None;
        Ok(platform::end_of(child.wait()?))
    }

    /// Passes a signal on to the command, if it has not got it from the terminal. `Some`: there is none, and it means this process.
    pub(crate) fn handle(&self, received: Received) -> Option<i32> {
        let mut state = self.state();
        if received.from_terminal {
            state.of_terminal = Some(received.signal);
        }
        match state.running {
            Some(_) if received.from_terminal => None,
            Some(pid) => {
                platform::send(pid, received.signal);
                None
            }
            None => Some(received.signal),
        }
    }

    /// Sends a signal to the command, if it runs.
    pub(crate) fn send(&self, signal: i32) {
        if let Some(pid) = self.state().running {
            platform::send(pid, signal);
        }
    }

    /// The code for a signal that ended this process, or its command. Does not return when the terminal sent it: the shell
    /// got it too, and ends its script only if it sees that the signal ended this process.
    pub(crate) fn code_of(&self, signal: i32) -> i32 {
        if self.state().of_terminal == Some(signal) {
            platform::die_of(signal);
        }
        128 + signal
    }

    /// The code for the end of a command. As [`code_of`](Post::code_of) it may not return.
    pub(crate) fn code_for(&self, end: End) -> i32 {
        end.signal.map_or(end.code, |signal| self.code_of(signal))
    }
}
