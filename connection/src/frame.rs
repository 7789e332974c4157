//! A frame: what travels on a connection in one piece.

use bytes::Bytes;

/// The longest frame by default, in bytes: 64 MiB.
///
/// A payload is held in memory by its sender, by the process that serves and by each receiver. Whoever has more to say
/// should put it into a file and send the name.
pub const DEFAULT_MAX_FRAME: usize = 64 << 20;

/// One JSON object, and bytes that nobody on the way looks into.
///
/// The header is the text of the object without a line feed inside (`serde_json` writes none). The payload may be empty. Both
/// are reference-counted: a clone copies no byte, and neither does [`Connection::queue`](crate::Connection::queue) with a long payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The JSON text.
    pub header: Bytes,
    /// The payload, opaque.
    pub payload: Bytes,
}

impl Frame {
    /// A frame of a header and a payload.
    pub fn new(header: impl Into<Bytes>, payload: impl Into<Bytes>) -> Frame {
        Frame { header: header.into(), payload: payload.into() }
    }

    /// How many bytes follow the length on the wire: the header, its line feed, the payload.
    #[must_use]
    pub fn length(&self) -> usize {
        self.header.len() + 1 + self.payload.len()
    }

    /// The length as it is written before the frame, if the frame may be sent.
    pub(crate) fn announce(&self, limit: usize) -> Result<u32, FrameError> {
        let length = self.length();
        let announced = u32::try_from(length).ok().filter(|_| length <= limit);
        let announced = announced.ok_or(FrameError::TooLong { length, limit })?;
        if self.header.contains(&b'\n') {
            return Err(FrameError::Malformed { fault: FrameFault::LineFeedInHeader });
        }
        Ok(announced)
    }
}

/// Bytes that are no frame, or a frame that may not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is longer than allowed.
    ///
    /// When sending: nothing was queued, and the connection goes on. When receiving: the connection ends, since the rest of
    /// such a frame would have to be read to find the next one.
    #[error(
        "a frame of {length} bytes is longer than the {limit} bytes that both sides allow: send less, or the name of a file"
    )]
    TooLong {
        /// The length of the frame, in bytes.
        length: usize,
        /// The longest frame that is allowed.
        limit: usize,
    },

    /// The bytes do not have the form of a frame.
    #[error("this is no frame: {fault}")]
    Malformed {
        /// What is wrong.
        fault: FrameFault,
    },
}

/// How bytes fail to be a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameFault {
    /// The length is zero, and a frame has a line feed at least.
    #[error("its length is zero")]
    Empty,
    /// There is no line feed after the header.
    #[error("no line feed ends its header")]
    NoLineFeed,
    /// The header to be sent has a line feed inside.
    #[error("its header has a line feed inside")]
    LineFeedInHeader,
}
