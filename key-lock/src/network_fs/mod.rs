//! Which file systems are refused because their files are on another machine.

mod linux_kinds;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::inspect;
#[cfg(windows)]
pub(crate) use windows::inspect;

/// What is known of a directory's file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// As a person knows it.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of the kernel, on this machine.
    Local,
    /// A program on this machine serves it, and answers lock requests when it can.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android", test)),
        allow(dead_code, reason = "only Linux tells")
    )]
    UserSpace,
    /// Refused.
    Network,
}
