//! Asks the coordinator what is in flight, without ever becoming it.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use flight_connection::{Frame, FrameDecoder, Hello};
use flight_key_lock::{LocalDirectory, LockFile};
use single_flight::StatusReport;
use single_flight::machines::protocol::{PROTOCOL_VERSION, Request, Response};

use crate::platform;

/// As long as a coordinator that runs may take.
const LIMIT: Duration = Duration::from_secs(1);

/// The longest report that is read.
const LONGEST: usize = 64 << 20;

/// The lock of the term: part of the frozen format.
const TERM: &str = "flight.lock";

/// What is known of the coordinator.
#[derive(Debug)]
pub(crate) enum Answer {
    Report(StatusReport),
    /// There is none.
    Absent(&'static str),
    /// It does not answer.
    Silent {
        pid: Option<u32>,
    },
    /// Something holds its lock, and nobody listens.
    Deaf,
    Failed(String),
}

impl Answer {
    /// In words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Answer::Report(report) => format!("process {} answers", report.pid),
            Answer::Absent(why) => format!("there is none: {why}"),
            Answer::Silent { pid: Some(pid) } => {
                format!("process {pid} holds its lock and does not answer: it is frozen or overloaded, and goes on when it can")
            }
            Answer::Silent { pid: None } => {
                "it holds its lock and does not answer: it is frozen or overloaded, and goes on when it can".to_owned()
            }
            Answer::Deaf => {
                "it cannot be reached: something holds flight.lock and does not serve; it goes on when that process ends".to_owned()
            }
            Answer::Failed(text) => text.clone(),
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Answer::Report(report) => Some(report.pid),
            Answer::Silent { pid } => *pid,
            _ => None,
        }
    }
}

/// Asks. Blocks for a second at most, and makes nothing.
pub(crate) fn ask(path: &Path) -> Answer {
    if std::fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Answer::Absent("the directory does not exist");
    }
    let directory = match LocalDirectory::open(path) {
        Ok(directory) => directory,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let stream = match platform::connect(directory.path(), &directory.identity().to_string()) {
        Ok(Some(stream)) => stream,
        Ok(None) => return nobody(&directory),
        // There is no place left in its queue.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Answer::Silent { pid: None },
        Err(error) => {
            return Answer::Failed(format!("cannot connect to the coordinator of {}: {error}", path.display()));
        }
    };
    let pid = platform::peer(&stream);
    let (answer, answered) = mpsc::channel();
    let identity = directory.identity().to_string();
    let asked = thread::Builder::new().name("ask".to_owned()).spawn(move || answer.send(converse(stream, identity)));
    if let Err(error) = asked {
        return Answer::Failed(format!("cannot start a thread: {error}"));
    }
    match answered.recv_timeout(LIMIT) {
        Ok(Ok(report)) => Answer::Report(report),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Answer::Absent("it has just ended"),
        Ok(Err(error)) => Answer::Failed(error.to_string()),
        Err(RecvTimeoutError::Timeout) => Answer::Silent { pid },
        Err(RecvTimeoutError::Disconnected) => Answer::Failed("asking the coordinator failed".to_owned()),
    }
}

fn nobody(directory: &LocalDirectory) -> Answer {
    const NOTHING: Answer = Answer::Absent("nothing is in flight");
    // A look would make it.
    if !directory.path().join(TERM).exists() {
        return NOTHING;
    }
    match LockFile::try_lock(directory, TERM) {
        Ok(Some(_free)) => NOTHING,
        Ok(None) => Answer::Deaf,
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn converse(mut stream: impl Read + Write, identity: String) -> io::Result<StatusReport> {
    let software = concat!("flight/", env!("CARGO_PKG_VERSION"));
    let mut ours = Hello::new(PROTOCOL_VERSION, software, flight_connection::Epoch::new(0), identity);
    // A process of its own for the coordinator: two that have the same number are taken for one that came again.
    ours.instance = RandomState::new().hash_one(std::process::id());
    let mut frames = FrameDecoder::new(LONGEST);
    send(&mut stream, &ours.frame())?;
    Hello::read(&receive(&mut stream, &mut frames)?, &ours).map_err(io::Error::other)?;
    let id = 1;
    send(&mut stream, &Request::Status { id }.encode())?;
    loop {
        match Response::decode(&receive(&mut stream, &mut frames)?) {
            Ok(Response::Status { report, .. }) => return Ok(report),
            Ok(Response::Unsupported { .. }) => {
                return Err(io::Error::other("the coordinator is of a version that tells nothing"));
            }
            // What it says to everybody.
            _ => {}
        }
    }
}

fn send(stream: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let length = u32::try_from(frame.length()).map_err(io::Error::other)?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(&frame.header);
    bytes.push(b'\n');
    bytes.extend_from_slice(&frame.payload);
    stream.write_all(&bytes)
}

fn receive(stream: &mut impl Read, frames: &mut FrameDecoder) -> io::Result<Frame> {
    let mut byte = [0];
    loop {
        // One at a time: what follows a frame is the next call's. Some hundred bytes.
        stream.read_exact(&mut byte)?;
        if let Some(frame) = frames.decode(&mut &byte[..]).map_err(io::Error::other)? {
            return Ok(frame);
        }
    }
}
