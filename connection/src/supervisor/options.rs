//! What a supervisor is opened with.

use std::time::Duration;

use crate::frame::DEFAULT_MAX_FRAME;

/// How a supervisor behaves. The numbers have good defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The version of the protocol that the owner speaks in its frames. Only equal versions talk.
    pub protocol: u32,
    /// Name and version of the program, for the messages of others.
    pub software: String,
    /// The longest frame, in bytes, sent or received: [`DEFAULT_MAX_FRAME`]. Of two peers with different limits the lower one counts.
    pub max_frame: usize,
    /// How many bytes a client of our term may leave waiting before it loses its connection: 256 MiB, four of the longest frames.
    /// The last resort against a client that does not read; an owner that watches [`Event::Written`](crate::Event::Written) closes it
    /// earlier. There is no such limit towards the process that serves: what waits there are our own callers' values, which are in
    /// memory anyway.
    pub max_backlog: usize,
    /// How long a client of our term may take to say hello: 5 s. While both were stopped, the time does not count.
    pub hello_timeout: Duration,
    /// How long somebody who holds the lock may leave us without an answer, or without a socket, before the
    /// [phase](crate::Phase) says so: 250 ms. It is only said; nothing is done about it.
    pub patience: Duration,
}

impl Options {
    /// The defaults.
    pub fn new(protocol: u32, software: impl Into<String>) -> Options {
        Options {
            protocol,
            software: software.into(),
            max_frame: DEFAULT_MAX_FRAME,
            max_backlog: 4 * DEFAULT_MAX_FRAME,
            hello_timeout: Duration::from_secs(5),
            patience: Duration::from_millis(250),
        }
    }
}
