//! How `flight` ends: one situation, one code.

use std::fmt;

use serde::{Deserialize, Serialize};
use single_flight::RunError;

/// The command line is wrong, or the key is not UTF-8.
pub(crate) const USAGE: i32 = 64;
/// The directory, the coordinator or the spool cannot be used.
pub(crate) const UNUSABLE: i32 = 69;
/// The command succeeded, and its output could not be written to where this process should write it.
pub(crate) const OUTPUT: i32 = 74;
/// `--wait` ran out.
pub(crate) const TIMED_OUT: i32 = 75;
/// The run that this call joined was interrupted, or the lock, or the leadership, was lost under the command.
pub(crate) const INTERRUPTED: i32 = 76;
/// The call was made inside the run of its own key.
pub(crate) const REENTRANT: i32 = 78;
/// The command was found, and cannot be executed.
pub(crate) const NOT_EXECUTABLE: i32 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: i32 = 127;

/// The part of `--help` that lists them.
pub(crate) const HELP: &str = "\
Exit status:
  that of CMD, and 128+n when the signal n ended it (all callers of a run get the same)
  126  CMD cannot be executed          127  CMD was not found
  64   wrong usage, or a KEY that is not UTF-8
  69   the directory, the coordinator or the spool cannot be used
  74   CMD succeeded, and its output could not be written here
  75   --wait ran out, or the key was busy (--no-wait)
  76   interrupted: the leader died, or its lock or leadership was lost
  78   called inside the run of its own KEY
  128+n  the signal n ended this call while it waited";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// The exit status as a shell has it: 128+n when a signal ended it.
    pub(crate) code: i32,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
}

impl End {
    pub(crate) fn code(code: i32) -> End {
        End { code, signal: None }
    }
}

/// Why `flight` itself failed: what it says, and the code it ends with.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl Failed {
    pub(crate) fn new(code: i32, text: impl fmt::Display) -> Failed {
        Failed { code, text: text.to_string() }
    }

    pub(crate) fn unusable(error: impl fmt::Display) -> Failed {
        Failed::new(UNUSABLE, error)
    }
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Failed {
        let code = match &error {
            RunError::TimedOut { .. } => TIMED_OUT,
            RunError::Reentrant { .. } => REENTRANT,
            RunError::Interrupted { .. }
            | RunError::LeaseLost(_)
            | RunError::Closed { .. }
            // The work of a `flight run` has no error of its own: its process had a fault, or was ended in the middle.
            | RunError::Failed { .. }
            | RunError::Work { .. } => INTERRUPTED,
            _ => UNUSABLE,
        };
        Failed::new(code, error)
    }
}
