//! What can go wrong with a directory and with a lock. That somebody else holds a lock is not an error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::platform;

/// A step of opening a directory, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OpenDirectoryStep {
    /// To make the path absolute, which asks for the working directory.
    FindPath,
    /// To create the directory, or one above it.
    Create,
    /// To open it.
    Open,
    /// To find out on which file system it is.
    FindFileSystem,
    /// To make the file with which the locks are tried.
    MakeProbe,
    /// To lock that file.
    LockProbe,
}

impl fmt::Display for OpenDirectoryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenDirectoryStep::FindPath => "find",
            OpenDirectoryStep::Create => "create the directory",
            OpenDirectoryStep::Open => "open the directory",
            OpenDirectoryStep::FindFileSystem => "find the file system of",
            OpenDirectoryStep::MakeProbe => "make a file to try locks with in",
            OpenDirectoryStep::LockProbe => "lock a file in",
        })
    }
}

/// Why a directory cannot be used. Nothing was locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDirectoryError {
    /// The directory is on a network file system. Locks there may hang, or not exclude other hosts.
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

    /// The file system granted the lock of one file to two at once.
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

    /// The file system did not answer whether a lock is free, which takes microseconds where it works.
    #[error(
        "the file system of {} ({file_system}) did not answer a lock request within {waited:?}: use a directory on another \
         file system",
        path.display()
    )]
    LocksHang {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        file_system: String,
        /// For how long the answer was waited for.
        waited: Duration,
    },

    /// The directory is mounted read-only. Lock files cannot be made there.
    #[error("{} is on a read-only mount, where no lock file can be made: use a directory that can be written to", path.display())]
    ReadOnly {
        /// The directory.
        path: PathBuf,
    },

    /// There is something at the path, and it is not a directory.
    #[error("{} is not a directory: remove it, or use another path", path.display())]
    NotADirectory {
        /// The path, or a part of it.
        path: PathBuf,
    },

    /// This user may not use the directory.
    #[error(
        "cannot {step} {}: {} belongs to user {owner} and has mode {mode:04o}: run as that user, or give each user a directory of \
         its own",
        path.display(), obstacle.display()
    )]
    NoAccess {
        /// What was tried.
        step: OpenDirectoryStep,
        /// The directory.
        path: PathBuf,
        /// The directory, or the nearest one above it that can be looked at.
        obstacle: PathBuf,
        /// Whom that belongs to (a user id).
        owner: u32,
        /// The permission bits that it has.
        mode: u32,
        /// What the operating system said.
        source: io::Error,
    },

    /// The name is not one plain file name.
    #[error("{name:?} cannot name a directory inside {}: it must be one plain name, without a separator", path.display())]
    Name {
        /// The directory in which it should be.
        path: PathBuf,
        /// The name.
        name: String,
    },

    /// The operating system refused.
    #[error("cannot {step} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was tried.
        step: OpenDirectoryStep,
        /// The directory, or one above it.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl OpenDirectoryError {
    /// With the reason that the operating system's answer stands for.
    pub(crate) fn new(step: OpenDirectoryStep, path: &Path, source: io::Error) -> OpenDirectoryError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotADirectory => OpenDirectoryError::NotADirectory { path },
            io::ErrorKind::ReadOnlyFilesystem => OpenDirectoryError::ReadOnly { path },
            io::ErrorKind::PermissionDenied => match obstacle(&path) {
                Some((obstacle, platform::Ownership { owner, mode })) => {
                    OpenDirectoryError::NoAccess { step, path, obstacle, owner, mode, source }
                }
                None => OpenDirectoryError::Io { step, path, source },
            },
            _ => OpenDirectoryError::Io { step, path, source },
        }
    }

    /// Whether the same call may succeed later although nobody repairs anything here: a full disk, no descriptors or memory left, an
    /// input or output error.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, OpenDirectoryError::Io { source, .. } if is_transient(source))
    }
}

/// A step of locking or unlocking, and of removing the files of idle keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockStep {
    /// To open the lock file.
    Open,
    /// To create it.
    Create,
    /// To take the lock.
    Lock,
    /// To compare the locked file with the one that its path leads to.
    Compare,
    /// To let go of the lock.
    Unlock,
    /// To list the lock files.
    List,
    /// To remove the lock file of an idle key.
    Remove,
}

impl fmt::Display for LockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockStep::Open => "open",
            LockStep::Create => "create",
            LockStep::Lock => "lock",
            LockStep::Compare => "look at",
            LockStep::Unlock => "unlock",
            LockStep::List => "list",
            LockStep::Remove => "remove",
        })
    }
}

/// What an operation on a lock was about: a lock file, and the key where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockTarget {
    path: PathBuf,
    key: Option<Box<str>>,
}

impl LockTarget {
    pub(crate) fn new(path: PathBuf, key: Option<Box<str>>) -> LockTarget {
        LockTarget { path, key }
    }

    /// The lock file, or the folder of the lock files.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The key, escaped, and shortened when it is long.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl fmt::Display for LockTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.key.as_ref().map_or(Ok(()), |key| write!(f, " (the lock of the key \"{key}\")"))
    }
}

/// A lock could not be tried, or not be let go of. That somebody else holds it is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The path of the directory leads to another one by now, or nowhere. Whoever opens it anew locks there, so that a lock in this
    /// one would exclude nobody.
    #[error("the directory {} was removed or replaced since it was opened: open it again", directory.display())]
    DirectoryReplaced {
        /// The directory, by the path under which it was opened.
        directory: PathBuf,
    },

    /// Each time the file was locked, it was no longer the one that its path leads to.
    #[error(
        "{target} was removed or replaced {turns} times in a row while it was being locked: find out what does that"
    )]
    Unsteady {
        /// The lock file.
        target: LockTarget,
        /// How often it was tried.
        turns: u32,
    },

    /// This user may not use the lock file.
    #[error(
        "cannot {step} {target}: {} belongs to user {owner} and has mode {mode:04o}: run as that user, or give each user a \
         directory of its own",
        obstacle.display()
    )]
    NoAccess {
        /// What was tried.
        step: LockStep,
        /// The lock file.
        target: LockTarget,
        /// The lock file, or the nearest directory above it that can be looked at.
        obstacle: PathBuf,
        /// Whom that belongs to (a user id).
        owner: u32,
        /// The permission bits that it has.
        mode: u32,
        /// What the operating system said.
        source: io::Error,
    },

    /// There is a directory, a link, a pipe or the like where the lock file should be. A link is not followed: it would lead the lock
    /// elsewhere.
    #[error("{target} is not a plain file: remove it")]
    NotAFile {
        /// What should be the lock file.
        target: LockTarget,
    },

    /// The name is not one plain file name.
    #[error("{name:?} cannot name a lock file: it must be one plain name, without a separator")]
    Name {
        /// The name.
        name: String,
    },

    /// The folder of the key locks cannot be opened or created.
    #[error("cannot use the folder of the key locks: {0}")]
    Folder(#[source] Box<OpenDirectoryError>),

    /// The operating system refused.
    #[error("cannot {step} {target}{}: {source}{}", on(file_system.as_deref()), advice(source))]
    Io {
        /// What was tried.
        step: LockStep,
        /// The lock file, or the folder of the lock files.
        target: LockTarget,
        /// The kind of file system, where it can be told.
        file_system: Option<String>,
        /// What the operating system said.
        source: io::Error,
    },
}

impl LockError {
    /// With the reason that the operating system's answer stands for.
    pub(crate) fn new(step: LockStep, target: LockTarget, file_system: Option<String>, source: io::Error) -> LockError {
        if platform::is_not_a_file(&source) {
            return LockError::NotAFile { target };
        }
        if source.kind() == io::ErrorKind::PermissionDenied
            && let Some((obstacle, platform::Ownership { owner, mode })) = obstacle(target.path())
        {
            return LockError::NoAccess { step, target, obstacle, owner, mode, source };
        }
        LockError::Io { step, target, file_system, source }
    }

    /// Whether the same call may succeed later although nobody repairs anything here: a full disk, no descriptors or memory left, an
    /// input or output error.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            LockError::Unsteady { .. } => true,
            LockError::Folder(error) => error.is_transient(),
            LockError::Io { source, .. } => is_transient(source),
            _ => false,
        }
    }

    /// What the operating system said, where it did.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            LockError::Io { source, .. } | LockError::NoAccess { source, .. } => Some(source),
            LockError::Folder(error) => match &**error {
                OpenDirectoryError::Io { source, .. } | OpenDirectoryError::NoAccess { source, .. } => Some(source),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What stands in the way: the path itself, or the nearest directory above it that can be looked at.
fn obstacle(path: &Path) -> Option<(PathBuf, platform::Ownership)> {
    path.ancestors().find_map(|path| Some((path.to_owned(), platform::ownership(path)?)))
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, OutOfMemory, QuotaExceeded, ResourceBusy, StorageFull};
    matches!(error.kind(), Interrupted | OutOfMemory | QuotaExceeded | ResourceBusy | StorageFull)
        || platform::is_passing_lack(error)
}

fn on(file_system: Option<&str>) -> String {
    file_system.map(|name| format!(" (on {name})")).unwrap_or_default()
}

/// What to do about it, where the operating system's words do not say.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "; use a directory that can be written to",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space or inodes, nothing was changed",
        io::ErrorKind::Unsupported => "; use a directory on a file system that can lock files",
        _ if platform::is_out_of_descriptors(error) => "; raise the limit of open files, or hold fewer locks at once",
        _ => "",
    }
}
