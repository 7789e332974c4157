//! What differs between operating systems: the same functions, in a file each.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub(crate) use system::*;

/// What is done to a byte of a lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Byte {
    Shared,
    Exclusive,
    Free,
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Its number.
    pub(crate) signal: i32,
    /// Whether the terminal sent it. Then the whole process group has it, the command too.
    pub(crate) from_terminal: bool,
}
