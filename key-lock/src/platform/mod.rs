//! The system calls, with the same names on every platform. They decide nothing.

use std::fs::File;

use crate::directory_identity::DirectoryIdentity;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// What the operating system knows of an open file or directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) identity: DirectoryIdentity,
    /// A plain file: no directory, pipe, socket or device.
    pub(crate) is_file: bool,
}

/// Whom a file belongs to, for a message to somebody who may not open it.
#[cfg_attr(windows, allow(dead_code, reason = "Windows does not tell"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ownership {
    pub(crate) owner: u32,
    pub(crate) mode: u32,
}

/// What came of opening a file by its name.
#[derive(Debug)]
pub(crate) enum Opened {
    File(File),
    /// The name leads to nothing.
    Missing,
    /// It is being removed, or open elsewhere in a way that shuts us out; either will pass.
    #[cfg_attr(unix, expect(dead_code, reason = "only Windows shuts anybody out"))]
    Busy,
}
