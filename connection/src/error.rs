//! Why an attempt to connect or to serve failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use flight_election::CampaignError;
use flight_key_lock::OpenDirectoryError;

use crate::handshake::HandshakeError;

/// The directory cannot have a socket, because of its path. Found before any lock is taken and before any epoch is counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The path of the socket is longer than the operating system allows.
    #[error(
        "the path of the socket, {}, has {length} bytes, and a socket's path may have {limit}: use a directory with a shorter path",
        path.display()
    )]
    TooLong {
        /// The path of the socket.
        path: PathBuf,
        /// Its length, in bytes.
        length: usize,
        /// The longest that is possible on every system.
        limit: usize,
    },
    /// The path has a NUL byte in it.
    #[error("the path of the socket, {}, has a NUL byte in it", path.display())]
    Nul {
        /// The path of the socket.
        path: PathBuf,
    },
}

/// A step on the way from a won campaign to a published socket, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServeStep {
    /// To see whether a socket can be made in the directory at all. Done before the campaign, which would count an epoch.
    Rehearse,
    /// To remove what an earlier attempt left.
    RemoveLeftOver,
    /// To bind the new socket and listen on it.
    Bind,
    /// To allow its use to the owner.
    SetMode,
    /// To see that the lock is still the one at its path.
    CheckLock,
    /// To give the socket its name.
    Publish,
    /// To wait for connections.
    Listen,
}

impl fmt::Display for ServeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServeStep::Rehearse => "make a socket at",
            ServeStep::RemoveLeftOver => "remove the left-over",
            ServeStep::Bind => "bind a socket to",
            ServeStep::SetMode => "set the mode of",
            ServeStep::CheckLock => "check the lock before the publication of",
            ServeStep::Publish => "publish",
            ServeStep::Listen => "wait for connections on",
        })
    }
}

/// An attempt to connect or to serve failed. Nothing of it is held: what was locked is unlocked, what was opened is closed.
///
/// The supervisor tries again by itself, whatever it was, so that nothing is remembered once the cause is repaired.
/// [`is_fatal`](AttemptError::is_fatal) tells whether somebody has to repair something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// The directory was removed or replaced, and could not be opened or created anew.
    #[error("cannot open {} again after it was removed or replaced: {source}", path.display())]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// What the opening said.
        source: OpenDirectoryError,
    },
    /// The directory that is there now cannot have a socket.
    #[error(transparent)]
    Address(AddressError),
    /// The operating system refused the connection, and not because nobody serves.
    #[error("cannot connect to {}: {source}", path.display())]
    Connect {
        /// The path of the socket.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The process that serves belongs to another user, who is not root. It is not trusted with anything.
    #[error("the process that serves {} belongs to user {uid:?}, and this one to user {ours:?}: give each user a directory of its own", path.display())]
    OtherUser {
        /// The path of the socket.
        path: PathBuf,
        /// The user of the process that serves.
        uid: Option<u32>,
        /// The user of this process.
        ours: Option<u32>,
    },
    /// There was a connection, and no agreement.
    #[error("no agreement with the process that serves {}: {source}", path.display())]
    Handshake {
        /// The path of the socket.
        path: PathBuf,
        /// Why.
        source: HandshakeError,
    },
    /// The campaign failed.
    #[error(transparent)]
    Campaign(CampaignError),
    /// The campaign was won, and the socket could not be published. The term was given up.
    #[error("cannot {step} {}: {source}", path.display())]
    Serve {
        /// What was tried.
        step: ServeStep,
        /// The path with which it was tried.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl AttemptError {
    /// Whether trying again is useless until somebody repairs something: another version of the protocol, an unreadable epoch,
    /// missing permission, another user's socket, too long a path, a read-only or unsuitable file system.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            AttemptError::Address(_) | AttemptError::OtherUser { .. } => true,
            AttemptError::Directory { source, .. } => !source.is_transient(),
            AttemptError::Campaign(CampaignError::DirectoryReplaced { .. }) => false,
            AttemptError::Campaign(source) => !source.is_transient(),
            AttemptError::Handshake { source, .. } => match source {
                HandshakeError::ProtocolVersion(_)
                | HandshakeError::Refused { .. }
                | HandshakeError::OtherDirectory { .. } => true,
                HandshakeError::Unreadable { .. } | HandshakeError::StaleTerm { .. } => false,
            },
            AttemptError::Connect { source, .. } | AttemptError::Serve { source, .. } => is_fatal(source),
        }
    }

    /// The path that the attempt was about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            AttemptError::Address(AddressError::TooLong { path, .. } | AddressError::Nul { path })
            | AttemptError::Directory { path, .. }
            | AttemptError::Connect { path, .. }
            | AttemptError::OtherUser { path, .. }
            | AttemptError::Handshake { path, .. }
            | AttemptError::Serve { path, .. } => path,
            AttemptError::Campaign(source) => source.path(),
        }
    }
}

/// Whether somebody has to repair something, as opposed to a lack that may pass.
fn is_fatal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::Unsupported
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
    )
}
