//! What both sides say first.
//!
//! Each side's first frame is its [`Hello`], without a payload. The client speaks first; the server answers when it has read the
//! client's, so that its epoch is above all that the client has seen. The client sends no request before it has read the answer. So
//! two versions that do not understand each other find out before either has asked for anything.
//!
//! Only the name `protocol` is fixed for all versions to come: it is read alone, before the rest.

use flight_fencing::Epoch;
use serde::{Deserialize, Serialize};

use crate::frame::Frame;

/// The longest hello, in bytes. Until it has said hello, a peer cannot make us keep more.
pub(crate) const MAX_HELLO: usize = 16 << 10;

/// What one side says of itself before anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hello {
    /// The version of the protocol. Only equal versions talk.
    pub protocol: u32,
    /// Name and version of the program, for messages.
    pub software: String,
    /// The highest epoch that this side has seen; for a server, the epoch of its term.
    pub epoch: Epoch,
    /// The identity of the directory that this side means.
    pub directory: String,
    /// The process, as it calls itself. In another PID namespace it means nothing.
    pub pid: u32,
    /// A number that this side drew when it began, the same in each of its connections: process ids repeat across PID namespaces.
    #[serde(default)]
    pub instance: u64,
    /// The longest frame that this side takes, in bytes behind the length. The other side sends none that is longer.
    #[serde(default = "no_limit")]
    pub max_frame: u32,
    /// A server's refusal, in words. The connection ends after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl Hello {
    /// A hello of this process, which takes frames of any length.
    pub fn new(protocol: u32, software: impl Into<String>, epoch: Epoch, directory: impl Into<String>) -> Hello {
        let (software, directory) = (software.into(), directory.into());
        let pid = std::process::id();
        Hello { protocol, software, epoch, directory, pid, instance: 0, max_frame: no_limit(), refusal: None }
    }

    /// The frame that says it.
    #[must_use]
    pub fn frame(&self) -> Frame {
        let header = serde_json::to_vec(self).expect("numbers and texts always have a JSON form");
        Frame::new(header, Vec::new())
    }

    /// Reads the first frame of a peer, as the side that said `ours`.
    ///
    /// # Errors
    ///
    /// When the peer speaks another version of the protocol, or no protocol of ours. See [`HandshakeError`].
    pub fn read(frame: &Frame, ours: &Hello) -> Result<Hello, HandshakeError> {
        let version: Version = serde_json::from_slice(&frame.header)
            .map_err(|source| HandshakeError::Unreadable { reason: source.to_string() })?;
        if version.protocol != ours.protocol {
            let (theirs, software) = (version.protocol, version.software);
            return Err(HandshakeError::ProtocolVersion(ProtocolVersion { ours: ours.protocol, theirs, software }));
        }
        let theirs: Hello = serde_json::from_slice(&frame.header)
            .map_err(|source| HandshakeError::Unreadable { reason: source.to_string() })?;
        if let Some(reason) = theirs.refusal {
            return Err(HandshakeError::Refused { reason });
        }
        if theirs.directory != ours.directory {
            let (ours, theirs) = (ours.directory.clone(), theirs.directory);
            return Err(HandshakeError::OtherDirectory { ours, theirs });
        }
        Ok(theirs)
    }
}

fn no_limit() -> u32 {
    u32::MAX
}

/// The part of a hello that no version may change.
#[derive(Deserialize)]
struct Version {
    protocol: u32,
    #[serde(default)]
    software: String,
}

/// Two versions of the protocol met, and cannot talk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process speaks version {ours} of the protocol, and the other one ({software}) speaks version {theirs}: run the same version in \
     all processes of a directory, or give each version a directory of its own"
)]
#[non_exhaustive]
pub struct ProtocolVersion {
    /// Our version.
    pub ours: u32,
    /// The peer's version.
    pub theirs: u32,
    /// The peer's name and version.
    pub software: String,
}

/// Why two processes did not come to talk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// Different versions.
    #[error(transparent)]
    ProtocolVersion(ProtocolVersion),
    /// The first frame is no hello.
    #[error("the first frame is no hello: {reason}")]
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
    /// The server said no.
    #[error("the process that serves refused this one: {reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
    /// The peer means another directory.
    #[error(
        "the other process means another directory ({theirs}, and this one means {ours}): its socket was moved or linked here"
    )]
    OtherDirectory {
        /// The identity of our directory.
        ours: String,
        /// The identity of the peer's.
        theirs: String,
    },
    /// The server's term is below an epoch that we have seen.
    #[error("the process that serves is at epoch {theirs}, and this one has seen {seen}: its term is over")]
    StaleTerm {
        /// The highest epoch that we have seen.
        seen: Epoch,
        /// The epoch of the server's term.
        theirs: Epoch,
    },
}
