//! What waits to be taken by the kernel. Pure: the writing itself is passed in.
//!
//! Invariants:
//! 1. A frame is queued whole or not at all, so that the peer never sees half of one followed by another.
//! 2. `queued` counts every byte that was ever queued and `taken` every byte that the kernel took, and while nothing was discarded
//!    `queued - taken` is what the segments and the tail hold.
//! 3. After a discard nothing is queued any more: what came behind a gap would be read as garbage.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};

use crate::frame::{Frame, FrameError};

/// A payload of up to this many bytes is copied behind its header, so that it costs no entry of its own in the system call. A memory
/// copy of this size is cheaper than the entry.
const COPIED: usize = 4 << 10;

/// How many entries one system call gets. The kernel allows 1,024; a socket takes some 200 KiB at once, which rarely fills these.
const SLICES: usize = 64;

/// An empty tail keeps no more memory than this.
const KEPT_TAIL: usize = 16 << 10;

/// How far the writing of a connection has come. See [`Connection::flush`](crate::Connection::flush).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many bytes of this connection are wholly in the kernel. They reach the peer even if this process ends now.
    pub position: u64,
    /// How many bytes still wait in this process.
    pub backlog: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Before the tail, in order.
    segments: VecDeque<Bytes>,
    /// The bytes in `segments`.
    segments_len: usize,
    /// Frames that are still put together in one piece.
    tail: Vec<u8>,
    /// How many bytes of the tail were taken.
    tail_taken: usize,
    queued: u64,
    taken: u64,
    discarded: bool,
}

impl Outbox {
    /// Queues a frame; the position at which it is wholly taken.
    pub(crate) fn push(&mut self, frame: &Frame, limit: usize) -> Result<u64, FrameError> {
        let length = frame.announce(limit)?;
        self.queued += 4 + u64::from(length);
        if self.discarded {
            return Ok(self.queued);
        }
        self.compact();
        self.tail.extend_from_slice(&length.to_be_bytes());
        self.tail.extend_from_slice(&frame.header);
        self.tail.push(b'\n');
        if frame.payload.len() > COPIED {
            self.cut_tail();
            self.segments_len += frame.payload.len();
            self.segments.push_back(frame.payload.clone());
        } else {
            self.tail.extend_from_slice(&frame.payload);
        }
        Ok(self.queued)
    }

    /// Gives `write` what waits, until all is taken or it fails (with `WouldBlock`, too).
    pub(crate) fn write(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        while self.backlog() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut filled = 0;
            let tail = &self.tail[self.tail_taken..];
            for (slice, bytes) in slices.iter_mut().zip(self.segments.iter().map(|bytes| &bytes[..]).chain([tail])) {
                *slice = IoSlice::new(bytes);
                filled += 1;
            }
            match write(&slices[..filled]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.take(taken),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forgets what waits, for good.
    pub(crate) fn discard(&mut self) {
        let Outbox { queued, taken, .. } = *self;
        *self = Outbox { queued, taken, discarded: true, ..Outbox::default() };
    }

    pub(crate) fn backlog(&self) -> usize {
        self.segments_len + self.tail.len() - self.tail_taken
    }

    pub(crate) fn written(&self) -> Written {
        Written { position: self.taken, backlog: self.backlog() }
    }

    fn take(&mut self, mut taken: usize) {
        self.taken += taken as u64;
        while let Some(first) = self.segments.front_mut() {
            let part = taken.min(first.len());
            first.advance(part);
            self.segments_len -= part;
            taken -= part;
            if !first.is_empty() {
                return;
            }
            self.segments.pop_front();
        }
        self.tail_taken += taken;
        if self.tail_taken == self.tail.len() {
            self.tail_taken = 0;
            self.tail.clear();
            self.tail.shrink_to(KEPT_TAIL);
        }
    }

    /// Makes the tail a segment, because something that is not copied follows.
    fn cut_tail(&mut self) {
        let mut tail = Bytes::from(std::mem::take(&mut self.tail));
        tail.advance(std::mem::take(&mut self.tail_taken));
        self.segments_len += tail.len();
        self.segments.push_back(tail);
    }

    /// Drops what was taken of the tail, once it is the greater part: so each byte is moved once on average.
    fn compact(&mut self) {
        if self.tail_taken > self.tail.len() / 2 && self.tail_taken > KEPT_TAIL {
            self.tail.drain(..self.tail_taken);
            self.tail_taken = 0;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
mod tests {
    use super::*;
    use crate::frame::FrameFault;

    /// Takes at most `at_most` bytes a call into `sink`.
    fn sip(sink: &mut Vec<u8>, at_most: usize) -> impl FnMut(&[IoSlice<'_>]) -> io::Result<usize> {
        move |slices| {
            let before = sink.len();
            for slice in slices {
                let room = at_most - (sink.len() - before);
                sink.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            Ok(sink.len() - before)
        }
    }

    fn wire(frames: &[Frame]) -> Vec<u8> {
        let mut wire = Vec::new();
        for frame in frames {
            wire.extend_from_slice(&u32::try_from(frame.length()).unwrap().to_be_bytes());
            wire.extend_from_slice(&frame.header);
            wire.push(b'\n');
            wire.extend_from_slice(&frame.payload);
        }
        wire
    }

    fn frames() -> Vec<Frame> {
        [0, 1, COPIED, COPIED + 1, 3, 100_000, 0, 20_000, 7]
            .into_iter()
            .enumerate()
            .map(|(number, length)| Frame::new(format!("{{\"n\":{number}}}"), vec![number as u8; length]))
            .collect()
    }

    #[test]
    fn bytes_leave_in_order_whatever_the_kernel_takes_at_once() {
        for at_most in [1, 5, 4_097, 1 << 20] {
            let (mut outbox, mut sink, frames) = (Outbox::default(), Vec::new(), frames());
            for frame in &frames {
                outbox.push(frame, 1 << 20).unwrap();
            }
            outbox.write(sip(&mut sink, at_most)).unwrap();
            assert_eq!(sink, wire(&frames), "taken {at_most} at a time");
            assert_eq!(outbox.written(), Written { position: sink.len() as u64, backlog: 0 });
        }
    }

    #[test]
    fn the_position_of_a_frame_is_where_it_is_wholly_taken() {
        let (mut outbox, mut sink, frames) = (Outbox::default(), Vec::new(), frames());
        for (number, frame) in frames.iter().enumerate() {
            let position = outbox.push(frame, 1 << 20).unwrap();
            assert_eq!(position, wire(&frames[..=number]).len() as u64);
        }
        let mut calls = 0;
        let mut sip = sip(&mut sink, 10);
        let full = outbox.write(|slices| {
            calls += 1;
            if calls > 3 { Err(io::ErrorKind::WouldBlock.into()) } else { sip(slices) }
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(outbox.written(), Written { position: 30, backlog: wire(&frames).len() - 30 });
    }

    #[test]
    fn frames_that_are_queued_while_others_leave_stay_whole() {
        let (mut outbox, mut sink) = (Outbox::default(), Vec::new());
        let small = Frame::new("{\"small\":true}", vec![1; 1_000]);
        let mut expected = Vec::new();
        for _ in 0..200 {
            outbox.push(&small, 1 << 20).unwrap();
            expected.push(small.clone());
            let mut calls = 0;
            let mut sip = sip(&mut sink, 900);
            // One call a turn takes less than what is queued, so that the tail is never empty.
            let full = outbox.write(|slices| {
                calls += 1;
                if calls > 1 { Err(io::ErrorKind::WouldBlock.into()) } else { sip(slices) }
            });
            assert!(full.is_err());
        }
        assert!(outbox.tail.len() < outbox.backlog() * 2 + KEPT_TAIL + 2_000, "what was taken is dropped");
        outbox.write(sip(&mut sink, usize::MAX / 2)).unwrap();
        assert_eq!(sink, wire(&expected));
    }

    #[test]
    fn a_frame_that_may_not_be_sent_leaves_no_byte() {
        let mut outbox = Outbox::default();
        let long = outbox.push(&Frame::new("{}", vec![0; 98]), 100);
        assert_eq!(long, Err(FrameError::TooLong { length: 101, limit: 100 }));
        let torn = outbox.push(&Frame::new("{\n}", ""), 100);
        assert_eq!(torn, Err(FrameError::Malformed { fault: FrameFault::LineFeedInHeader }));
        assert_eq!(outbox.written(), Written { position: 0, backlog: 0 });
        assert_eq!(outbox.push(&Frame::new("{}", vec![0; 97]), 100), Ok(104));
    }

    #[test]
    fn after_a_discard_nothing_is_sent() {
        let (mut outbox, mut sink) = (Outbox::default(), Vec::new());
        outbox.push(&Frame::new("{}", ""), 100).unwrap();
        outbox.discard();
        outbox.push(&Frame::new("{}", ""), 100).unwrap();
        outbox.write(sip(&mut sink, 10)).unwrap();
        assert!(sink.is_empty());
        assert_eq!(outbox.written(), Written { position: 0, backlog: 0 });
    }
}
