//! Unix domain sockets.
//!
//! Sockets are non-blocking, and the kernel is asked directly: tokio tells when it is worth asking. What it believes may lag behind
//! the kernel, and [`Socket::receive`] does not mind.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};

use flight_key_lock::LocalDirectory;
use interprocess::ConnectWaitMode;
use interprocess::local_socket::{
    ConnectOptions, GenericFilePath, ListenerNonblockingMode, ListenerOptions, Name, ToFsName,
};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket as uds;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use super::{Credentials, NoConnection, failed};
use crate::error::{AddressError, AttemptError, ServeStep};

/// The name of the socket in its directory.
const SOCKET: &str = "flight.sock";

/// A socket that is not published yet.
const NEW: &str = "flight.new";

/// A socket that is only made to see whether it can be.
const TRIAL: &str = "flight.try";

/// The longest path of a socket that every system takes: macOS has 104 bytes with the final NUL, Linux 108.
const LONGEST: usize = 103;

/// The kernel is asked directly, so that one look finds everything.
pub(crate) const PASSES_UNTIL_DRY: u32 = 1;

/// The socket file behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupant {
    device: u64,
    inode: u64,
}

/// How the sockets of a directory are reached.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    directory: LocalDirectory,
    /// Through the descriptor of the directory, since the path is too long for a socket.
    by_descriptor: bool,
}

impl Address {
    pub(crate) fn of(directory: &LocalDirectory) -> Result<Address, AddressError> {
        let path = directory.path().join(SOCKET);
        let bytes = path.as_os_str().as_bytes();
        if bytes.contains(&0) {
            return Err(AddressError::Nul { path });
        }
        let mut address = Address { directory: directory.clone(), by_descriptor: bytes.len() > LONGEST };
        if address.by_descriptor && !address.can_go_by_descriptor() {
            let length = bytes.len();
            return Err(AddressError::TooLong { path, length, limit: LONGEST });
        }
        address.by_descriptor = bytes.len() > LONGEST;
        Ok(address)
    }

    /// The path of the socket, for people.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    /// The path of a socket, for the kernel.
    fn reach(&self, name: &str) -> PathBuf {
        if self.by_descriptor { self.descriptor().join(name) } else { self.directory.path().join(name) }
    }

    /// Every process has another number here, and all of them reach the same directory.
    fn descriptor(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_fd().as_raw_fd()))
    }

    /// Whether there is a `/proc` that shows our descriptors.
    fn can_go_by_descriptor(&self) -> bool {
        let (Ok(there), Ok(here)) = (rustix::fs::stat(self.descriptor()), rustix::fs::fstat(&self.directory)) else {
            return false;
        };
        cfg!(target_os = "linux") && (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
    }
}

/// The user of this process.
pub(crate) fn our_user() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw())
}

/// Connects, without waiting.
pub(crate) fn connect(address: &Address) -> Result<Socket, NoConnection> {
    let path = address.reach(SOCKET);
    let stream: uds::Stream = ConnectOptions::new()
        .name(name(&path).map_err(NoConnection::Failed)?)
        // Not to wait in the kernel for a place in the queue: a stopped process would keep us there.
        .wait_mode(ConnectWaitMode::Deferred)
        .nonblocking_stream(true)
        .connect_sync_as()
        .map_err(no_connection)?;
    let stream = StdStream::from(OwnedFd::from(stream));
    // A deferred connection to a full queue is none at all, and nothing tells when there is a place. So ask now.
    match stream.peer_addr() {
        Ok(_) => Socket::new(stream).map_err(NoConnection::Failed),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(NoConnection::Full),
        Err(error) => Err(NoConnection::Failed(error)),
    }
}

fn no_connection(error: io::Error) -> NoConnection {
    match Errno::from_io_error(&error) {
        // ENOTSOCK and EPROTOTYPE: something else lies under the name. The next term's socket replaces it.
        Some(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTSOCK | Errno::PROTOTYPE) => NoConnection::Nobody,
        // The server went while we were in its queue. Who serves next is found by trying again.
        Some(Errno::CONNRESET) => NoConnection::Nobody,
        Some(Errno::AGAIN) => NoConnection::Full,
        _ => NoConnection::Failed(error),
    }
}

fn name(path: &Path) -> io::Result<Name<'_>> {
    path.to_fs_name::<GenericFilePath>()
}

/// Finds out whether a socket can be made in the directory, and leaves none.
pub(crate) fn rehearse(address: &Address) -> Result<(), AttemptError> {
    // What no renaming and no unlinking replaces.
    for name in [SOCKET, NEW] {
        let stat = rustix::fs::statat(&address.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory) {
            let path = address.directory.path().join(name);
            return Err(failed(ServeStep::Rehearse, path)(io::ErrorKind::IsADirectory.into()));
        }
    }
    let failed = failed(ServeStep::Rehearse, address.directory.path().join(TRIAL));
    match bind(address, TRIAL) {
        Ok(_) => remove(address, TRIAL).map_err(failed),
        // One of another process, or of one that was killed here: it could be made.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Makes the socket of a term and gives it its name, which also takes the name from the socket that had it. `is_current` says whether
/// the term lasts.
pub(crate) fn publish(
    address: &Address,
    _epoch: flight_fencing::Epoch,
    is_current: impl FnOnce() -> io::Result<()>,
) -> Result<Listener, AttemptError> {
    let at = |step, name: &str| failed(step, address.directory.path().join(name));
    // Of a process that was killed at this place. Only the holder of the lock comes here, so it is nobody's who lives.
    remove(address, NEW).map_err(at(ServeStep::RemoveLeftOver, NEW))?;
    let listener = bind(address, NEW).map_err(at(ServeStep::Bind, NEW))?;
    // Where the mode could not be given at birth, and where the umask took the owner's bits away.
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::chmodat(&address.directory, NEW, mode, AtFlags::empty())
        .map_err(io::Error::from)
        .map_err(at(ServeStep::SetMode, NEW))?;
    let occupant = identity(address, NEW).map_err(at(ServeStep::Publish, NEW))?;
    let listener = Listener::new(listener, occupant).map_err(at(ServeStep::Listen, NEW))?;
    // As late as possible: after the renaming, who comes finds us.
    is_current().map_err(at(ServeStep::CheckLock, SOCKET))?;
    // Already listening: between the two names no client is refused.
    rustix::fs::renameat(&address.directory, NEW, &address.directory, SOCKET)
        .map_err(io::Error::from)
        .map_err(at(ServeStep::Publish, SOCKET))?;
    Ok(listener)
}

/// Whose socket has the name. `None`: nobody's.
pub(crate) fn occupant(address: &Address) -> io::Result<Option<Occupant>> {
    match identity(address, SOCKET) {
        Ok(occupant) => Ok(Some(occupant)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn bind(address: &Address, socket: &str) -> io::Result<StdListener> {
    let path = address.reach(socket);
    let options = |path| {
        Ok::<_, io::Error>(
            ListenerOptions::new().name(name(path)?).reclaim_name(false).nonblocking(ListenerNonblockingMode::Both),
        )
    };
    // Given to the socket before it has a name, so that it is never seen with another mode. The umask stays as it is.
    let listener: uds::Listener = match options(&path)?.mode(0o600).create_sync_as() {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => options(&path)?.create_sync_as()?,
        other => other?,
    };
    Ok(StdListener::from(listener))
}

fn remove(address: &Address, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(&address.directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn identity(address: &Address, name: &str) -> io::Result<Occupant> {
    let stat = rustix::fs::statat(&address.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    #[allow(clippy::useless_conversion, clippy::cast_sign_loss, reason = "the types differ from system to system")]
    Ok(Occupant { device: stat.st_dev as u64, inode: stat.st_ino as u64 })
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) occupant: Occupant,
    /// For the kernel's word.
    direct: StdListener,
    /// The same socket, for tokio's.
    listener: UnixListener,
}

impl Listener {
    fn new(listener: StdListener, occupant: Occupant) -> io::Result<Listener> {
        Ok(Listener { occupant, direct: listener.try_clone()?, listener: UnixListener::from_std(listener)? })
    }

    /// The next connection that waits in the kernel. `Pending`: there was none, and the waker is woken when there is.
    pub(crate) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Socket>> {
        loop {
            match self.direct.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    return Poll::Ready(Socket::new(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The client has gone again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        // It asks once more, so that nobody is missed between the two.
        let (stream, _) = ready!(self.listener.poll_accept(cx))?;
        Poll::Ready(Ok(Socket { stream }))
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: UnixStream,
}

impl Socket {
    fn new(stream: StdStream) -> io::Result<Socket> {
        #[cfg(target_vendor = "apple")]
        rustix::net::sockopt::set_socket_nosigpipe(&stream, true)?;
        Ok(Socket { stream: UnixStream::from_std(stream)? })
    }

    pub(crate) fn credentials(&self) -> io::Result<Credentials> {
        let peer = self.stream.peer_cred()?;
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        let uid = peer.uid();
        let trusted = uid == 0 || Some(uid) == our_user();
        Ok(Credentials { pid, uid: Some(uid), trusted })
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_read_ready(cx)
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_write_ready(cx)
    }

    /// Reads what the kernel has, into `buffer`. Zero: end of file.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len();
        self.ask(Interest::READABLE, room, |stream| Ok(rustix::net::recv(stream, &mut *buffer, RecvFlags::DONTWAIT)?.0))
    }

    /// Reads what the kernel has into the room behind `buffer`'s bytes, of which there must be some. Zero: end of file.
    pub(crate) fn receive_into(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let room = buffer.capacity() - buffer.len();
        self.ask(Interest::READABLE, room, |stream| {
            Ok(rustix::net::recv(stream, spare_capacity(buffer), RecvFlags::DONTWAIT)?.0)
        })
    }

    /// How many bytes the kernel holds for [`receive`](Socket::receive).
    pub(crate) fn receivable(&self) -> io::Result<u64> {
        Ok(rustix::io::ioctl_fionread(&self.stream)?)
    }

    /// Gives the kernel what it takes at once.
    pub(crate) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        #[cfg(not(target_vendor = "apple"))]
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        #[cfg(target_vendor = "apple")]
        let flags = SendFlags::DONTWAIT;
        // Less than all is no reason to stop asking here: only a refusal makes tokio tell when there is room again.
        self.ask(Interest::WRITABLE, 0, |stream| {
            Ok(rustix::net::sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), flags)?)
        })
    }

    /// Says to both sides that nothing follows. What was sent before stays readable.
    pub(crate) fn shutdown(&self) {
        // It fails when the peer has done so before.
        rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Both).ok();
    }

    /// Asks the kernel whatever tokio believes; but when it answers that there is nothing more, lets tokio know.
    fn ask(
        &self,
        interest: Interest,
        room: usize,
        operation: impl FnOnce(&UnixStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut operation = Some(operation);
        let mut answer = None;
        let told = self.stream.try_io(interest, || {
            let Some(operation) = operation.take() else { return Ok(()) };
            let result = operation(&self.stream);
            // Fewer bytes than there was room for were all, so that there is no need to ask again.
            let dry = match &result {
                Ok(count) => (1..room).contains(count),
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            answer = Some(result);
            if dry { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match (answer, operation) {
            (Some(answer), _) => answer,
            // tokio believes that there is nothing, and has not asked.
            (None, Some(operation)) => operation(&self.stream),
            (None, None) => told.map(|()| 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_live_socket_is_nobody() {
        let failure = |errno: Errno| no_connection(io::Error::from(errno));
        assert!(matches!(failure(Errno::NOENT), NoConnection::Nobody));
        assert!(matches!(failure(Errno::CONNREFUSED), NoConnection::Nobody));
        assert!(matches!(failure(Errno::AGAIN), NoConnection::Full));
        assert!(matches!(failure(Errno::ACCESS), NoConnection::Failed(_)));
        assert!(matches!(failure(Errno::MFILE), NoConnection::Failed(_)));
    }

    #[test]
    fn names_are_within_the_limit_that_is_checked() {
        assert!([NEW, TRIAL].iter().all(|name| name.len() <= SOCKET.len()));
    }
}
