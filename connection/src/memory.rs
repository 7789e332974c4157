//! Two ends of a connection in one process, without a socket: for tests of what is built on connections.
//!
//! ```
//! use flight_connection::{Epoch, Frame, Hello, memory};
//!
//! let hello = |epoch| Hello::new(1, "test", Epoch::new(epoch), "a directory");
//! let (client, server) = memory::pair(hello(0), hello(8));
//! assert_eq!(client.connection().peer().hello.epoch, Epoch::new(8));
//!
//! client.connection().queue(&Frame::new(r#"{"ask":1}"#, ""))?;
//! client.connection().flush();
//! assert_eq!(server.receive()?, Some(Frame::new(r#"{"ask":1}"#, "")));
//! # Ok::<(), flight_connection::FrameError>(())
//! ```

use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::codec::FrameDecoder;
use crate::connection::{Connection, ConnectionId, Link, Peer, Transport};
use crate::frame::{DEFAULT_MAX_FRAME, Frame, FrameError};
use crate::handshake::Hello;

/// One end.
#[derive(Debug)]
pub struct MemoryEnd {
    connection: Connection,
    incoming: Arc<Pipe>,
    decoder: Mutex<FrameDecoder>,
}

/// Makes a connection between two processes that said these hellos: first the end of the one that said `first`.
///
/// Each end can hold any number of bytes for the other; see [`MemoryEnd::set_capacity`].
#[must_use]
pub fn pair(first: Hello, second: Hello) -> (MemoryEnd, MemoryEnd) {
    let (to_second, to_first) = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
    let end = |incoming: &Arc<Pipe>, outgoing: &Arc<Pipe>, hello: Hello| {
        let socket = MemorySocket { incoming: Arc::clone(incoming), outgoing: Arc::clone(outgoing) };
        let link = Link::new(ConnectionId::next(), Transport::Memory(socket), None, DEFAULT_MAX_FRAME, usize::MAX);
        link.limit_frames(hello.max_frame);
        let peer = Peer { pid: Some(std::process::id()), uid: None, hello };
        MemoryEnd {
            connection: Connection::new(link, peer),
            incoming: Arc::clone(incoming),
            decoder: Mutex::new(FrameDecoder::new(DEFAULT_MAX_FRAME)),
        }
    };
    (end(&to_first, &to_second, second), end(&to_second, &to_first, first))
}

impl MemoryEnd {
    /// The connection, to send on.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The next frame that the other end has flushed. `None`: there is none at the moment, or never again
    /// ([`is_closed`](MemoryEnd::is_closed) tells).
    ///
    /// # Errors
    ///
    /// [`FrameError`] for bytes that are no frame, which happens only when the limits of the two ends differ.
    pub fn receive(&self) -> Result<Option<Frame>, FrameError> {
        let mut bytes = self.incoming.bytes();
        let mut input = &bytes.waiting[..];
        let frame = self.decoder.lock().unwrap_or_else(PoisonError::into_inner).decode(&mut input);
        let taken = bytes.waiting.len() - input.len();
        bytes.waiting.drain(..taken);
        frame
    }

    /// Lets this end hold at most `bytes` that it has not received yet, as the kernel's buffers do: what is more stays with the
    /// sender as its backlog.
    pub fn set_capacity(&self, bytes: usize) {
        self.incoming.bytes().capacity = bytes;
    }

    /// Whether one of the ends was closed. What was flushed before can still be received.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.incoming.bytes().closed
    }
}

/// The bytes in one direction.
#[derive(Debug)]
struct Pipe {
    bytes: Mutex<Bytes>,
}

#[derive(Debug)]
struct Bytes {
    waiting: Vec<u8>,
    capacity: usize,
    closed: bool,
}

impl Default for Pipe {
    fn default() -> Pipe {
        Pipe { bytes: Mutex::new(Bytes { waiting: Vec::new(), capacity: usize::MAX, closed: false }) }
    }
}

impl Pipe {
    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stands for the socket.
#[derive(Debug)]
pub(crate) struct MemorySocket {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
}

impl MemorySocket {
    pub(crate) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut bytes = self.outgoing.bytes();
        if bytes.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let before = bytes.waiting.len();
        for slice in slices {
            let room = bytes.capacity.saturating_sub(bytes.waiting.len());
            bytes.waiting.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        match bytes.waiting.len() - before {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    pub(crate) fn shutdown(&self) {
        self.incoming.bytes().closed = true;
        self.outgoing.bytes().closed = true;
    }
}
