//! Which file systems are refused because another host may see the same files.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::inspect;
#[cfg(windows)]
pub(crate) use windows::inspect;

/// What is known of a directory's file system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    pub(crate) name: String,
    pub(crate) network: bool,
}
