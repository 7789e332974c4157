//! A client by hand, which can also misbehave.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use flight_connection::{Epoch, Frame, FrameCodec, FrameDecoder, Hello};
use tokio_util::codec::Encoder;

use crate::party::{DEADLINE, local};

pub(crate) struct Raw {
    pub(crate) stream: UnixStream,
    decoder: FrameDecoder,
    read: Vec<u8>,
}

impl Raw {
    pub(crate) fn connect(folder: &Path) -> Raw {
        let stream = UnixStream::connect(folder.join("flight.sock")).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Raw { stream, decoder: FrameDecoder::new(64 << 20), read: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it takes them");
    }

    pub(crate) fn say_hello(&mut self, folder: &Path) {
        self.send(&wire(&hello(folder).frame()));
    }

    /// The next frame; `None`: the other side has closed.
    pub(crate) fn receive(&mut self) -> Option<Frame> {
        loop {
            let mut input = &self.read[..];
            let frame = self.decoder.decode(&mut input).expect("it sends frames");
            let taken = self.read.len() - input.len();
            self.read.drain(..taken);
            if frame.is_some() {
                return frame;
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("neither a frame nor an end: {error}"),
            }
        }
    }
}

pub(crate) fn hello(folder: &Path) -> Hello {
    Hello::new(1, "by hand", Epoch::MIN, local(folder).identity().to_string())
}

pub(crate) fn wire(frame: &Frame) -> Vec<u8> {
    let mut wire = bytes::BytesMut::new();
    FrameCodec::default().encode(frame.clone(), &mut wire).unwrap();
    wire.to_vec()
}

/// Does it on another thread, so that a party on this one can go on meanwhile.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}
