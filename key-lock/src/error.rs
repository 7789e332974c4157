use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a directory cannot be used. Nothing was locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDirectoryError {
    /// The directory could not be created, opened or looked at.
    #[error("could not {action} the directory {}: {source}{}", path.display(), owner.as_deref().unwrap_or_default())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
        /// Who owns it, and with which mode, where that may be the reason.
        owner: Option<String>,
    },
    /// The directory is on a network file system. Its locks may not exclude other hosts, or hang.
    #[error(
        "{} is on a network file system ({file_system}), where locks cannot be relied on: use a directory on a local disk",
        path.display()
    )]
    NetworkDirectory {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        file_system: String,
    },
    /// The file system grants one lock to two at once.
    #[error(
        "locks do not exclude on the file system of {} ({file_system}): use a directory on another file system",
        path.display()
    )]
    LocksDoNotExclude {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        file_system: String,
    },
    /// The file system refuses the lock of a file that nobody holds.
    #[error("files cannot be locked on the file system of {} ({file_system}): {source}", path.display())]
    LocksUnsupported {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        file_system: String,
        /// What the operating system said.
        source: io::Error,
    },
}

impl OpenDirectoryError {
    /// Whether it may pass by itself: a full disk, no descriptors or memory left, an input or output error.
    pub fn is_transient(&self) -> bool {
        match self {
            OpenDirectoryError::Io { source, .. } => is_transient(source),
            _ => false,
        }
    }
}

/// What was tried when a lock failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockStep {
    /// Opening the folder of the locks, or creating it.
    OpenFolder,
    /// Opening the lock file, or creating it.
    Open,
    /// Taking the lock.
    Lock,
    /// Comparing the locked file with the one at its path.
    Compare,
    /// Letting go of the lock.
    Unlock,
    /// Listing the lock files.
    List,
    /// Removing the file of an idle key.
    Remove,
}

impl fmt::Display for LockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockStep::OpenFolder => "open the folder of the locks",
            LockStep::Open => "open the lock file",
            LockStep::Lock => "lock",
            LockStep::Compare => "compare with its path the locked file",
            LockStep::Unlock => "unlock",
            LockStep::List => "list the lock files of",
            LockStep::Remove => "remove the lock file of an idle key,",
        })
    }
}

/// A lock could not be tried or let go of. That somebody else holds it is not an error.
#[derive(Debug, thiserror::Error)]
#[error("could not {step} {}: {source}{}", path.display(), hint(source))]
pub struct LockError {
    /// What was tried.
    pub step: LockStep,
    /// The file or folder.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl LockError {
    pub(crate) fn new(step: LockStep, path: impl Into<PathBuf>, source: io::Error) -> Self {
        LockError { step, path: path.into(), source }
    }

    /// Whether it may pass by itself: a full disk, no descriptors or memory left, an input or output error.
    pub fn is_transient(&self) -> bool {
        is_transient(&self.source)
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, OutOfMemory, QuotaExceeded, ResourceBusy, StorageFull, WouldBlock};
    matches!(error.kind(), Interrupted | OutOfMemory | QuotaExceeded | ResourceBusy | StorageFull | WouldBlock)
        || crate::platform::is_passing_lack(error)
}

/// What to do about it, where that is not in the operating system's words.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (the directory and its files belong to one user; give each user a directory of its own)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (locks need a writable directory)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (free some space or inodes; nothing was changed)"
        }
        io::ErrorKind::Unsupported => " (this file system cannot lock: use a directory on another one)",
        _ => "",
    }
}
