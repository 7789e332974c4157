//! One connection, as the supervisor sees it: what is read, and the writing that other threads left over.
//!
//! Invariants:
//! 1. Frames are given out in the order of their bytes, and the end after all of them.
//! 2. After an end nothing is read.
//! 3. A failed write ends nothing by itself: reading goes on to the end of file, within [`GRACE`].

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::attention::Bell;
use crate::codec::FrameDecoder;
use crate::connection::{Connection, ConnectionId, Link, Peer, Transport, WriteFailure, Written};
use crate::frame::Frame;
use crate::handshake::{Hello, MAX_HELLO};
use crate::socket::{Credentials, Socket};
use crate::supervisor::event::DisconnectReason;

/// How many bytes are read before the other connections have their turn.
pub(super) const CHUNK: usize = 64 << 10;

/// How many bytes are written before the other connections have their turn.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// A frame that lacks at least so much is read without a buffer between.
const LONG: usize = 16 << 10;

/// How long a connection whose writing failed is still read. The end of file of a process that ended is there by then; a peer that
/// has only closed its reading side, and goes on, is none of ours.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// What both sides have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The peer has not said hello.
    Greeting,
    /// Both have.
    Open,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) link: Arc<Link>,
    pub(super) bell: Arc<Bell>,
    pub(super) credentials: Credentials,
    pub(super) stage: Stage,
    /// When it ends if nothing happens.
    pub(super) deadline: Option<Instant>,
    waker: Waker,
    decoder: FrameDecoder,
    max_frame: usize,
    write_failure: Option<WriteFailure>,
}

/// What one reading came to.
#[derive(Debug)]
pub(super) enum Reading {
    /// So many bytes, and there may be more.
    More(usize),
    /// The kernel has no more now.
    Dry,
    /// There will never be more.
    End(DisconnectReason),
}

impl Channel {
    pub(super) fn new(
        socket: Socket,
        credentials: Credentials,
        id: ConnectionId,
        bell: Arc<Bell>,
        max_frame: usize,
        max_backlog: usize,
    ) -> Channel {
        let link = Link::new(id, Transport::Socket(socket), Some(Arc::clone(&bell)), max_frame, max_backlog);
        Channel {
            link,
            waker: bell.waker(),
            bell,
            credentials,
            stage: Stage::Greeting,
            deadline: None,
            decoder: FrameDecoder::new(MAX_HELLO),
            max_frame,
            write_failure: None,
        }
    }

    /// The connection for the owner, when both have said hello.
    pub(super) fn connection(&self, hello: Hello) -> Connection {
        let Credentials { pid, uid, .. } = self.credentials;
        self.link.limit_frames(hello.max_frame);
        Connection::new(Arc::clone(&self.link), Peer { pid, uid, hello })
    }

    /// Says hello.
    pub(super) fn greet(&self, hello: &Hello) {
        // Only the name of the software can make it too long. The peer waits then, until its patience ends.
        if let Err(error) = self.link.greet(hello) {
            tracing::error!(%error, "cannot say hello");
        }
    }

    /// Whether tokio knows of something to read. Otherwise it rings when there is.
    pub(super) fn is_readable(&mut self) -> bool {
        let Some(socket) = self.link.socket() else { return false };
        // An error is that of a runtime that ends; reading tells.
        socket.poll_readable(&mut Context::from_waker(&self.waker)).is_ready()
    }

    /// Asks the kernel, whatever tokio knows. Appends what frames there are.
    pub(super) fn read(&mut self, scratch: &mut [u8], frames: &mut Vec<Frame>) -> Reading {
        let Channel { link, decoder, max_frame, .. } = self;
        let Some(socket) = link.socket() else { return Reading::Dry };
        let direct = decoder.missing() >= LONG;
        let received = if direct { decoder.fill(|body| socket.receive_into(body)) } else { socket.receive(scratch) };
        let count = match received {
            Ok(0) => return Reading::End(self.end(DisconnectReason::EndOfFile)),
            Ok(count) => count,
            Err(error) => return self.not_read(error),
        };
        let rest;
        let mut input = if direct {
            match decoder.filled() {
                Ok(None) => return Reading::More(count),
                Ok(Some((frame, behind))) => {
                    frames.push(frame);
                    rest = behind;
                    &rest[..]
                }
                Err(error) => return Reading::End(self.end(DisconnectReason::Framing(error))),
            }
        } else {
            &scratch[..count]
        };
        while !input.is_empty() {
            match decoder.decode(&mut input) {
                Ok(Some(frame)) => {
                    frames.push(frame);
                    // Only a hello has to be short.
                    decoder.set_limit(*max_frame);
                }
                Ok(None) => break,
                Err(error) => return Reading::End(self.end(DisconnectReason::Framing(error))),
            }
        }
        Reading::More(count)
    }

    fn not_read(&mut self, error: io::Error) -> Reading {
        match error.kind() {
            io::ErrorKind::WouldBlock => Reading::Dry,
            io::ErrorKind::Interrupted => Reading::More(0),
            // The peer ended without having read all that we sent. What it had sent itself was read before this came.
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Reading::End(self.end(DisconnectReason::EndOfFile))
            }
            _ => Reading::End(self.end(DisconnectReason::Read(error))),
        }
    }

    /// Writes what waits. The progress, if there was any.
    pub(super) fn write(&mut self) -> Option<Written> {
        let mut sending = self.link.outbox();
        while sending.outbox.backlog() > 0 {
            if self.link.write_some(&mut sending, WRITTEN_AT_ONCE) {
                // The others have their turn first.
                self.bell.ring();
                break;
            }
            let Some(socket) = self.link.socket() else { break };
            if sending.outbox.backlog() == 0 {
                break;
            }
            match socket.poll_writable(&mut Context::from_waker(&self.waker)) {
                Poll::Ready(Ok(())) => {}
                // There is no room; or the runtime ends.
                Poll::Pending | Poll::Ready(Err(_)) => break,
            }
        }
        let progress = sending.progress();
        if let Some(failure) = sending.failed.take() {
            self.write_failure.get_or_insert(failure);
        }
        progress
    }

    /// Whether nothing can be written any more.
    pub(super) fn is_failing(&self) -> bool {
        self.write_failure.is_some()
    }

    /// Whether it is to be closed at once, because the peer left too much waiting.
    pub(super) fn has_overflown(&self) -> bool {
        matches!(self.write_failure, Some(WriteFailure::Backlog { .. })) && !self.link.is_closed()
    }

    /// The reason that is told when `reason` is how the end was found.
    pub(super) fn end(&mut self, reason: DisconnectReason) -> DisconnectReason {
        match (self.write_failure.take(), reason) {
            (Some(WriteFailure::Backlog { backlog, limit }), _) => DisconnectReason::Backlog { backlog, limit },
            (_, DisconnectReason::EndOfFile) if self.link.is_closed() => DisconnectReason::Closed,
            (_, reason) => reason,
        }
    }

    /// The end by a deadline.
    pub(super) fn timed_out(&mut self) -> DisconnectReason {
        match self.write_failure.take() {
            Some(WriteFailure::Io(error)) => DisconnectReason::Write(error),
            Some(WriteFailure::Backlog { backlog, limit }) => DisconnectReason::Backlog { backlog, limit },
            None => DisconnectReason::EndOfFile,
        }
    }
}
