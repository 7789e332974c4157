//! The operating system's side: one kind of socket on each system, with the same functions.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{
    Address, Listener, Occupant, PASSES_UNTIL_DRY, Socket, connect, occupant, our_user, publish, rehearse,
};
#[cfg(windows)]
pub(crate) use windows::{
    Address, Listener, Occupant, PASSES_UNTIL_DRY, Socket, connect, occupant, our_user, publish, rehearse,
};

use std::io;
use std::path::PathBuf;

use crate::error::{AttemptError, ServeStep};

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoConnection {
    /// Nobody listens: there is no socket, or it is a dead process's.
    Nobody,
    /// Somebody listens, whose queue is full. It is alive.
    Full,
    /// The operating system refused for another reason.
    Failed(io::Error),
}

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) pid: Option<u32>,
    pub(crate) uid: Option<u32>,
    /// The same user, or one who may do everything anyway.
    pub(crate) trusted: bool,
}

/// A failed step, with the path that it was about.
pub(crate) fn failed(step: ServeStep, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> AttemptError {
    let path = path.into();
    move |source| AttemptError::Serve { step, path, source }
}
