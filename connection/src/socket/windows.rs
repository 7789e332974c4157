//! Named pipes, which live in a name space of the whole machine.
//!
//! The name has the directory's identity and the epoch of the term in it, and is found through `flight.epoch`. So two terms never share
//! a name, and nothing has to be replaced: a pipe goes when its process goes.
//!
//! Everybody can make a pipe of any name. So the server insists on making the first one of its name, and the client looks whose process
//! serves before it says anything.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::os::windows::io::AsRawHandle;
use std::path::PathBuf;
use std::pin::Pin;
use std::ptr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};

use flight_fencing::Epoch;
use flight_key_lock::LocalDirectory;
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions};
use windows_sys::Win32::Foundation::{
    ERROR_FILE_NOT_FOUND, ERROR_NO_DATA, ERROR_PIPE_BUSY, ERROR_PIPE_NOT_CONNECTED, HANDLE,
};
use windows_sys::Win32::System::Pipes::{GetNamedPipeClientProcessId, GetNamedPipeServerProcessId, PeekNamedPipe};
use windows_sys::core::BOOL;

use super::{Credentials, NoConnection, failed};
use crate::error::{AddressError, AttemptError, ServeStep};
use crate::user::{self, Rights};

/// What a pipe received lies in a buffer that its last reading has begun to fill. After one look of the runtime it is known, and after
/// a second one without news there was no more.
pub(crate) const PASSES_UNTIL_DRY: u32 = 2;

/// The file that tells the epoch of the last term.
const EPOCH_FILE: &str = "flight.epoch";

/// How much of one write the system holds at most. What is longer is written in parts, so that a process that ends right after a write
/// loses no more than this.
const BUFFER: u32 = 64 << 10;

/// How many clients can connect in one moment. The others find the pipe busy, and come again.
const SPARE_INSTANCES: usize = 4;

/// The epoch whose pipe is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupant(Epoch);

/// How the pipes of a directory are reached.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    directory: LocalDirectory,
}

impl Address {
    pub(crate) fn of(directory: &LocalDirectory) -> Result<Address, AddressError> {
        Ok(Address { directory: directory.clone() })
    }

    /// For people: the file through which the pipe is found.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(EPOCH_FILE)
    }

    fn pipe(&self, epoch: Epoch) -> String {
        format!(r"\\.\pipe\{}-{epoch}", self.directory.identity())
    }
}

/// Users are compared by their security identifiers instead.
pub(crate) fn our_user() -> Option<u32> {
    None
}

/// Which pipe is to be found. `None`: none yet.
pub(crate) fn occupant(address: &Address) -> io::Result<Option<Occupant>> {
    let bytes = address.directory.read(EPOCH_FILE)?.unwrap_or_default();
    let text = bytes.strip_suffix(b"\n").and_then(|digits| std::str::from_utf8(digits).ok());
    Ok(text.and_then(|digits| digits.parse().ok()).map(Occupant))
}

/// Connects, without waiting.
pub(crate) fn connect(address: &Address) -> Result<Socket, NoConnection> {
    let Some(Occupant(epoch)) = occupant(address).map_err(NoConnection::Failed)? else {
        return Err(NoConnection::Nobody);
    };
    match ClientOptions::new().open(address.pipe(epoch)) {
        Ok(pipe) => Ok(Socket::new(Pipe::Client(pipe))),
        Err(error) if is(&error, ERROR_FILE_NOT_FOUND) => Err(NoConnection::Nobody),
        Err(error) if is(&error, ERROR_PIPE_BUSY) => Err(NoConnection::Full),
        Err(error) => Err(NoConnection::Failed(error)),
    }
}

/// Pipes can be made whatever the directory is.
pub(crate) fn rehearse(_address: &Address) -> Result<(), AttemptError> {
    Ok(())
}

/// Makes the pipe of a term. `is_current` says whether the term lasts.
pub(crate) fn publish(
    address: &Address,
    epoch: Epoch,
    is_current: impl FnOnce() -> io::Result<()>,
) -> Result<Listener, AttemptError> {
    let name = address.pipe(epoch);
    // The pipe is found as soon as it is made.
    is_current().map_err(failed(ServeStep::CheckLock, address.path()))?;
    let rights = Rights::of_this_user().map_err(failed(ServeStep::SetMode, &name))?;
    let first = instance(&name, &rights, true).map_err(failed(ServeStep::Bind, &name))?;
    Ok(Listener { occupant: Occupant(epoch), name, rights, waiting: vec![waiting(first)] })
}

/// One more end for one more client. The first one of its name fails if somebody else has made one of that name.
fn instance(name: &str, rights: &Rights, is_first: bool) -> io::Result<NamedPipeServer> {
    let mut options = ServerOptions::new();
    options.first_pipe_instance(is_first).reject_remote_clients(true).in_buffer_size(BUFFER).out_buffer_size(BUFFER);
    let mut attributes = rights.attributes();
    // SAFETY: it points to security attributes, which live until the call returns, as does the descriptor they point to.
    unsafe { options.create_with_security_attributes_raw(name, ptr::from_mut(&mut attributes).cast()) }
}

type Waiting = Pin<Box<dyn Future<Output = io::Result<NamedPipeServer>> + Send>>;

fn waiting(server: NamedPipeServer) -> Waiting {
    Box::pin(async move {
        match server.connect().await {
            // The client has gone already. Its end of file is read like any other.
            Err(error) if is(&error, ERROR_NO_DATA) => Ok(server),
            connected => connected.map(|()| server),
        }
    })
}

/// Pipe ends that wait for clients.
pub(crate) struct Listener {
    pub(crate) occupant: Occupant,
    name: String,
    rights: Rights,
    waiting: Vec<Waiting>,
}

impl Listener {
    /// The next connection. `Pending`: there was none, and the waker is woken when there is.
    pub(crate) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Socket>> {
        while self.waiting.len() < SPARE_INSTANCES {
            match instance(&self.name, &self.rights, false) {
                Ok(server) => self.waiting.push(waiting(server)),
                // Those that there are have to do. Without any, nobody can be accepted.
                Err(error) if self.waiting.is_empty() => return Poll::Ready(Err(error)),
                Err(_) => break,
            }
        }
        for place in 0..self.waiting.len() {
            if let Poll::Ready(accepted) = self.waiting[place].as_mut().poll(cx) {
                drop(self.waiting.swap_remove(place));
                return Poll::Ready(accepted.map(|server| Socket::new(Pipe::Server(server))));
            }
        }
        Poll::Pending
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).field("waiting", &self.waiting.len()).finish()
    }
}

#[derive(Debug)]
enum Pipe {
    Server(NamedPipeServer),
    Client(NamedPipeClient),
}

/// The same call for both ends.
macro_rules! on {
    ($pipe:expr, $end:ident => $call:expr) => {
        match $pipe {
            Pipe::Server($end) => $call,
            Pipe::Client($end) => $call,
        }
    };
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    /// `None` after the shutdown: a pipe has no other way to say that nothing follows.
    pipe: RwLock<Option<Pipe>>,
}

impl Socket {
    fn new(pipe: Pipe) -> Socket {
        Socket { pipe: RwLock::new(Some(pipe)) }
    }

    pub(crate) fn credentials(&self) -> io::Result<Credentials> {
        let pipe = self.pipe();
        let Some(pipe) = &*pipe else { return Err(io::ErrorKind::NotConnected.into()) };
        let handle: HANDLE = on!(pipe, end => end.as_raw_handle());
        let mut pid = 0;
        match pipe {
            Pipe::Server(_) => {
                // SAFETY: the handle is open while the pipe is borrowed, and `pid` is writable.
                succeeded(unsafe { GetNamedPipeClientProcessId(handle, &raw mut pid) })?;
                // The access rights of the pipe have let nobody else in.
                Ok(Credentials { pid: Some(pid), uid: None, trusted: true })
            }
            Pipe::Client(_) => {
                // SAFETY: the handle is open while the pipe is borrowed, and `pid` is writable.
                succeeded(unsafe { GetNamedPipeServerProcessId(handle, &raw mut pid) })?;
                Ok(Credentials { pid: Some(pid), uid: None, trusted: user::is_trusted(pid)? })
            }
        }
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &*self.pipe() {
            Some(pipe) => on!(pipe, end => end.poll_read_ready(cx)),
            None => Poll::Ready(Ok(())),
        }
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &*self.pipe() {
            Some(pipe) => on!(pipe, end => end.poll_write_ready(cx)),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Reads what there is, into `buffer`. Zero: end of file.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &*self.pipe() {
            Some(pipe) => or_end(on!(pipe, end => end.try_read(buffer))),
            None => Ok(0),
        }
    }

    /// Reads what there is into the room behind `buffer`'s bytes. Zero: end of file.
    pub(crate) fn receive_into(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match &*self.pipe() {
            Some(pipe) => or_end(on!(pipe, end => end.try_read_buf(buffer))),
            None => Ok(0),
        }
    }

    /// How many bytes the system holds for [`receive`](Socket::receive), besides those that it is about to hand over.
    pub(crate) fn receivable(&self) -> io::Result<u64> {
        let pipe = self.pipe();
        let Some(pipe) = &*pipe else { return Ok(0) };
        let handle: HANDLE = on!(pipe, end => end.as_raw_handle());
        let (none, mut available) = (ptr::null_mut(), 0);
        // SAFETY: the handle is open while the pipe is borrowed, `available` is writable, and nothing else is asked for.
        succeeded(unsafe { PeekNamedPipe(handle, none, 0, ptr::null_mut(), &raw mut available, ptr::null_mut()) })?;
        Ok(available.into())
    }

    /// Gives the system what it takes at once.
    pub(crate) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let pipe = self.pipe();
        let Some(pipe) = &*pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let Some(slice) = slices.iter().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let part = &slice[..slice.len().min(BUFFER as usize)];
        on!(pipe, end => end.try_write(part))
    }

    /// Says that nothing follows. What was sent before stays readable.
    pub(crate) fn shutdown(&self) {
        let pipe = self.pipe.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(pipe);
    }

    fn pipe(&self) -> RwLockReadGuard<'_, Option<Pipe>> {
        self.pipe.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The other end has gone: that is an end of file.
fn or_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe || is(&error, ERROR_PIPE_NOT_CONNECTED) => Ok(0),
        other => other,
    }
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error().and_then(|raw| u32::try_from(raw).ok()) == Some(code)
}

fn succeeded(result: BOOL) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
