//! Frames to bytes and back.
//!
//! ```text
//!  0        4                                  4+length
//!  +--------+----------------------+----+---------------+
//!  | length | one JSON object      | \n | payload       |
//!  | u32 BE | (no line feed)       |    | (may be empty)|
//!  +--------+----------------------+----+---------------+
//!           |<------------ length bytes --------------->|
//! ```
//!
//! The first line feed ends the header, so that the payload may be anything.
//!
//! The length is a claim of the peer. It is compared with the limit as soon as its four bytes are there, and no memory is
//! reserved on its word: the decoder holds at most twice the bytes that it has really received of the frame in progress.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use crate::frame::{Frame, FrameError, FrameFault};

/// The first allocation for a frame that arrives in parts.
const FIRST_PART: usize = 4 << 10;

/// Reads the length of a frame.
fn length(prefix: [u8; 4], limit: usize) -> Result<usize, FrameError> {
    // On a 16-bit machine nothing else here would work either.
    let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    match length {
        0 => Err(FrameError::Malformed { fault: FrameFault::Empty }),
        length if length > limit => Err(FrameError::TooLong { length, limit }),
        length => Ok(length),
    }
}

/// Cuts the bytes behind the length into header and payload. Copies nothing.
fn cut(mut body: Bytes) -> Result<Frame, FrameError> {
    let Some(end) = body.iter().position(|byte| *byte == b'\n') else {
        return Err(FrameError::Malformed { fault: FrameFault::NoLineFeed });
    };
    let header = body.split_to(end);
    body.advance(1);
    Ok(Frame { header, payload: body })
}

/// Puts frames together from whatever arrives, in whatever pieces.
///
/// It is what the supervisor reads with. For tokio's streams there is [`FrameCodec`].
///
/// ```
/// use flight_connection::{Frame, FrameDecoder};
///
/// let mut decoder = FrameDecoder::new(1024);
/// let mut input = &b"\0\0\0\x05{}\nhi\0\0"[..];
/// assert_eq!(decoder.decode(&mut input)?, Some(Frame::new("{}", "hi")));
/// assert_eq!(decoder.decode(&mut input)?, None);          // two bytes of the next frame
/// assert!(input.is_empty());
/// # Ok::<(), flight_connection::FrameError>(())
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    prefix: [u8; 4],
    prefix_len: usize,
    /// What was received of the frame in progress, behind its length.
    body: Vec<u8>,
    /// The length of the frame in progress, once it is known.
    length: Option<usize>,
}

impl FrameDecoder {
    /// A decoder that refuses frames of more than `limit` bytes (behind the length).
    #[must_use]
    pub fn new(limit: usize) -> FrameDecoder {
        FrameDecoder { limit, prefix: [0; 4], prefix_len: 0, body: Vec::new(), length: None }
    }

    /// Changes the limit, for frames whose length is not known yet.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes bytes from the front of `input` until a frame is complete. `None`: all of `input` was taken.
    ///
    /// A frame that is all there is copied once, into an allocation of exactly its size. So whoever keeps the payload keeps no more
    /// memory than that.
    ///
    /// # Errors
    ///
    /// [`FrameError`]. What follows in the stream cannot be read any more: stop.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let part = input.len().min(4 - self.prefix_len);
                self.prefix[self.prefix_len..self.prefix_len + part].copy_from_slice(&input[..part]);
                input.advance(part);
                self.prefix_len += part;
                if self.prefix_len < 4 {
                    return Ok(None);
                }
                length(self.prefix, self.limit)?
            }
        };
        if self.body.is_empty() && input.len() >= length {
            let body = Bytes::copy_from_slice(&input[..length]);
            input.advance(length);
            self.begin_next();
            return cut(body).map(Some);
        }
        self.length = Some(length);
        let part = input.len().min(length - self.body.len());
        if self.body.len() + part > self.body.capacity() {
            self.grow(self.body.len() + part, length);
        }
        self.body.extend_from_slice(&input[..part]);
        input.advance(part);
        if self.body.len() < length {
            return Ok(None);
        }
        let body = Bytes::from(std::mem::take(&mut self.body));
        self.begin_next();
        cut(body).map(Some)
    }

    /// How many bytes the frame in progress still lacks. Zero when that is not known, or when there is none.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.length.map_or(0, |length| length - self.body.len())
    }

    /// Whether the stream may end here: no frame was begun.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.prefix_len == 0
    }

    /// Lets `read` append at most `missing` bytes to the frame in progress, without a buffer between. The room that it finds is as
    /// much as was received before.
    pub(crate) fn fill(&mut self, read: impl FnOnce(&mut Vec<u8>) -> io::Result<usize>) -> io::Result<usize> {
        let Some(length) = self.length else { return Ok(0) };
        if self.body.len() == self.body.capacity() {
            self.grow(self.body.len(), length);
        }
        read(&mut self.body)
    }

    /// The frame, if [`fill`](FrameDecoder::fill) completed it. It may have brought bytes of what follows, which come first then.
    pub(crate) fn filled(&mut self) -> Result<Option<(Frame, Vec<u8>)>, FrameError> {
        let Some(length) = self.length.filter(|length| self.body.len() >= *length) else { return Ok(None) };
        // An allocator may give more room than was asked for.
        let rest = self.body.split_off(length);
        let body = Bytes::from(std::mem::take(&mut self.body));
        self.begin_next();
        cut(body).map(|frame| Some((frame, rest)))
    }

    /// Makes room for as much again as there is when `received` bytes of the frame are.
    fn grow(&mut self, received: usize, length: usize) {
        let capacity = length.min((2 * received).max(FIRST_PART));
        self.body.reserve_exact(capacity - self.body.len());
    }

    fn begin_next(&mut self) {
        self.prefix_len = 0;
        self.length = None;
    }
}

/// The frames of tokio's [`Framed`](tokio_util::codec::Framed) streams.
///
/// ```
/// use bytes::BytesMut;
/// use flight_connection::{Frame, FrameCodec};
/// use tokio_util::codec::{Decoder, Encoder};
///
/// let mut codec = FrameCodec::default();
/// let mut wire = BytesMut::new();
/// codec.encode(Frame::new(r#"{"land":7}"#, "the value"), &mut wire)?;
/// let frame = codec.decode(&mut wire)?.expect("all of it is there");
/// assert_eq!(frame.payload, "the value");
/// # Ok::<(), flight_connection::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    limit: usize,
}

impl FrameCodec {
    /// A codec that refuses frames of more than `limit` bytes (behind the length), in both directions.
    #[must_use]
    pub fn new(limit: usize) -> FrameCodec {
        FrameCodec { limit }
    }
}

impl Default for FrameCodec {
    /// With the limit [`DEFAULT_MAX_FRAME`](crate::DEFAULT_MAX_FRAME).
    fn default() -> FrameCodec {
        FrameCodec::new(crate::DEFAULT_MAX_FRAME)
    }
}

/// What ends a [`Framed`](tokio_util::codec::Framed) stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes are no frame, or the frame may not be sent.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream below failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = CodecError;

    /// The payload is a part of `source`, not a copy.
    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Frame>, CodecError> {
        let Some(prefix) = source.first_chunk::<4>() else { return Ok(None) };
        let length = length(*prefix, self.limit)?;
        if source.len() < 4 + length {
            // As much again as has arrived, whatever the length claims.
            source.reserve((4 + length - source.len()).min(source.len()));
            return Ok(None);
        }
        source.advance(4);
        Ok(Some(cut(source.split_to(length).freeze())?))
    }
}

impl Encoder<Frame> for FrameCodec {
    type Error = CodecError;

    fn encode(&mut self, frame: Frame, target: &mut BytesMut) -> Result<(), CodecError> {
        let length = frame.announce(self.limit)?;
        target.reserve(4 + frame.length());
        target.put_u32(length);
        target.put_slice(&frame.header);
        target.put_u8(b'\n');
        target.put_slice(&frame.payload);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
mod tests {
    use super::*;

    const LENGTH: usize = 60 << 20;

    /// A decoder that was promised a long frame.
    fn promised() -> FrameDecoder {
        let mut decoder = FrameDecoder::new(64 << 20);
        let promise = u32::try_from(LENGTH).unwrap().to_be_bytes();
        assert_eq!(decoder.decode(&mut &promise[..]), Ok(None));
        decoder
    }

    #[test]
    fn memory_follows_what_was_received_and_not_what_was_promised() {
        let mut decoder = promised();
        assert_eq!(decoder.body.capacity(), 0);
        let piece = [b'\n'; 1_000];
        for received in (piece.len()..100_000).step_by(piece.len()) {
            assert_eq!(decoder.decode(&mut &piece[..]), Ok(None));
            assert!(decoder.body.capacity() <= (2 * received).max(FIRST_PART), "after {received} bytes");
            assert_eq!(decoder.missing(), LENGTH - received);
        }
    }

    #[test]
    fn what_is_filled_in_directly_is_bounded_too_and_may_bring_the_next_frame() {
        let mut decoder = promised();
        decoder.decode(&mut &b"{}\n"[..]).unwrap();
        let mut received = 3;
        while decoder.missing() > 0 {
            let missing = decoder.missing();
            let count = decoder.fill(|body| {
                let room = body.capacity() - body.len();
                assert!(room > 0 && body.capacity() <= (2 * received).max(FIRST_PART));
                body.resize(body.len() + room.min(missing), 7);
                Ok(room.min(missing))
            });
            received += count.unwrap();
        }
        // As if the last reading had found room for more.
        decoder.body.extend_from_slice(&[0, 0]);
        let (frame, behind) = decoder.filled().unwrap().unwrap();
        assert_eq!((frame.header.as_ref(), frame.payload.len()), (&b"{}"[..], LENGTH - 3));
        assert_eq!(behind, [0, 0]);
        assert!(decoder.is_between_frames());
    }
}
