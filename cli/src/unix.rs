//! Unix: signals, locks of single bytes, and two pipes at once.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read as _};
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, IntoRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::sync::mpsc;

use crate::exit::End;
use crate::platform::{Byte, Received};
use crate::spool::{CHUNK, HEAD, Stream};

pub(crate) const TERMINATE: i32 = libc::SIGTERM;
pub(crate) const KILL: i32 = libc::SIGKILL;

/// Those that a command should get, and that would otherwise end this process alone.
const FORWARDED: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// The coordinator's socket: part of the frozen format.
const SOCKET: &str = "flight.sock";

/// Where the handler writes to.
static SIGNALS: AtomicI32 = AtomicI32::new(-1);

/// Takes the signals over. One that is ignored already (nohup, a job in the background of sh) stays so, for the command too.
pub(crate) fn listen() -> io::Result<mpsc::UnboundedReceiver<Received>> {
    let (mut reader, writer) = io::pipe()?;
    set_nonblocking(&writer)?;
    SIGNALS.store(writer.into_raw_fd(), Ordering::Relaxed);
    for signal in FORWARDED {
        // SAFETY: all zeros is a valid `sigaction`.
        let mut old: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: asks only; `old` is valid for writing.
        let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut old) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        if old.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        old.sa_sigaction = handle as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as libc::sighandler_t;
        old.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: `handle` does only what a handler may do, and stays for as long as the process.
        let set = unsafe { libc::sigaction(signal, &raw const old, ptr::null_mut()) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut record = [0; 2];
        while reader.read_exact(&mut record).is_ok() {
            let received = Received { signal: i32::from(record[0]), from_terminal: record[1] == 1 };
            if sender.send(received).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel hands over a valid one.
    let from_terminal = unsafe { is_from_kernel(info) };
    let record = [signal as u8, u8::from(from_terminal)];
    // SAFETY: the address is this thread's, and always valid.
    let errno = unsafe { errno() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    // SAFETY: write(2) may be called in a handler; two bytes are written whole or, in a full pipe, not at all.
    unsafe { libc::write(SIGNALS.load(Ordering::Relaxed), record.as_ptr().cast(), record.len()) };
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// Whether no process sent it: the terminal did, to its whole foreground group.
///
/// # Safety
/// `info` is that of a handler.
#[cfg(any(target_os = "linux", target_os = "android"))]
unsafe fn is_from_kernel(info: *const libc::siginfo_t) -> bool {
    // SAFETY: by this function's contract.
    let info = unsafe { &*info };
    info.si_code > 0
}

/// Whether no process sent it: the terminal did, to its whole foreground group.
///
/// # Safety
/// `info` is that of a handler.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
unsafe fn is_from_kernel(info: *const libc::siginfo_t) -> bool {
    // SAFETY: by this function's contract; the field is valid for signals that are sent.
    let pid = unsafe { (*info).si_pid() };
    pid == 0
}

#[cfg(any(target_os = "linux", target_os = "android"))]
unsafe fn errno() -> *mut i32 {
    // SAFETY: it has no preconditions.
    unsafe { libc::__errno_location() }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
unsafe fn errno() -> *mut i32 {
    // SAFETY: it has no preconditions.
    unsafe { libc::__error() }
}

/// Sends a signal to a child that was not yet waited for.
pub(crate) fn send(pid: u32, signal: i32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    if let Some(signal) = Signal::from_named_raw(signal) {
        // It may just have ended.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Waits until the child has ended, and leaves it there, so that its number is not another's.
pub(crate) fn wait_for_end(child: &Child) {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    while let Err(rustix::io::Errno::INTR) =
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
}

pub(crate) fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::code(code),
        (None, Some(signal)) => End { code: 128 + signal, signal: Some(signal) },
        (None, None) => End::code(255),
    }
}

/// Ends this process as the signal would have: a shell that gets it too wants to see that, to end its script.
pub(crate) fn die_of(signal: i32) {
    // No core of a process without a fault.
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
    // SAFETY: the default action is no handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: it has no preconditions.
    unsafe { libc::raise(signal) };
}

/// The same options, for a file of its owner alone.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Tries the lock of a whole file, which ends with the open file. `false`: another has it.
pub(crate) fn try_hold(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Locks or unlocks one byte of a file, for this process. `false`: another has it. It never waits.
pub(crate) fn lock_byte(file: &File, offset: u64, byte: Byte) -> io::Result<bool> {
    let kind = match byte {
        Byte::Shared => libc::F_RDLCK,
        Byte::Exclusive => libc::F_WRLCK,
        Byte::Free => libc::F_UNLCK,
    };
    // SAFETY: all zeros is a valid `flock`.
    let mut lock: libc::flock = unsafe { mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock.l_start = offset as _;
    lock.l_len = 1;
    // SAFETY: the descriptor is open, and the structure valid.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
    if done == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Reads both streams as they come, until the command has ended: `ended` is closed then. What it had written until then is read too; the end
/// of the pipes is not waited for, since a process that it left in the background may hold them.
///
/// Each piece comes with room for its head before it. Returns what still has a writer.
pub(crate) fn pump(
    stdout: ChildStdout,
    stderr: ChildStderr,
    ended: &PipeReader,
    mut take: impl FnMut(Stream, &mut [u8]),
) -> io::Result<[Option<Stdio>; 2]> {
    let mut buffer = vec![0; HEAD + CHUNK];
    let mut pipes = [
        (Stream::Out, Some(File::from(std::os::fd::OwnedFd::from(stdout)))),
        (Stream::Err, Some(File::from(std::os::fd::OwnedFd::from(stderr)))),
    ];
    for (_, pipe) in &pipes {
        if let Some(pipe) = pipe {
            set_nonblocking(pipe)?;
        }
    }
    loop {
        let mut waited = Vec::with_capacity(3);
        waited.push(PollFd::new(ended, PollFlags::IN));
        waited.extend(pipes.iter().filter_map(|(_, pipe)| Some(PollFd::new(pipe.as_ref()?, PollFlags::IN))));
        match poll(&mut waited, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let is_over = !waited[0].revents().is_empty();
        drop(waited);
        for (stream, pipe) in &mut pipes {
            let Some(file) = pipe else { continue };
            // What is there by now. A process in the background may write for ever.
            let mut there = if is_over { rustix::io::ioctl_fionread(&*file)? } else { 1 };
            while there > 0 {
                match file.read(&mut buffer[HEAD..]) {
                    Ok(0) => {
                        *pipe = None;
                        break;
                    }
                    Ok(length) => {
                        there = there.saturating_sub(length as u64);
                        take(*stream, &mut buffer[..HEAD + length]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        if is_over {
            break;
        }
    }
    Ok(pipes.map(|(_, pipe)| pipe.filter(has_writer).map(Stdio::from)))
}

fn has_writer(pipe: &File) -> bool {
    let mut looked = [PollFd::new(pipe, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut looked, Some(&now)).is_ok() && !looked[0].revents().contains(PollFlags::HUP)
}

fn set_nonblocking(file: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&file)?;
    Ok(rustix::fs::fcntl_setfl(&file, flags | OFlags::NONBLOCK)?)
}

/// Waits until a stream that does not block takes more.
pub(crate) fn wait_writable(file: &File) {
    let mut waited = [PollFd::new(file, PollFlags::OUT)];
    let _ = poll(&mut waited, None);
}

/// Copies of the standard streams, without a buffer.
pub(crate) fn own_streams() -> io::Result<[File; 2]> {
    Ok([File::from(io::stdout().as_fd().try_clone_to_owned()?), File::from(io::stderr().as_fd().try_clone_to_owned()?)])
}

/// Makes a command apart from this one's process group.
pub(crate) fn detach(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// How this program is started again, also when its file was replaced.
pub(crate) fn own_program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Reads two pipes to their ends and forgets what they hold. The second is standard error, which is open for reading here.
pub(crate) fn drain() {
    for pipe in
        [io::stdin().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()].into_iter().flatten()
    {
        let spawned = thread::Builder::new().spawn(move || {
            let mut pipe = File::from(pipe);
            let flags = rustix::fs::fcntl_getfl(&pipe).unwrap_or(OFlags::empty());
            let _ = rustix::fs::fcntl_setfl(&pipe, flags & !OFlags::NONBLOCK);
            drop(io::copy(&mut pipe, &mut io::sink()));
        });
        if let Ok(thread) = spawned {
            // One after the other would let the second fill up.
            DRAINS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(thread);
        }
    }
    let drains = mem::take(&mut *DRAINS.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    for drain in drains {
        drop(drain.join());
    }
}

static DRAINS: std::sync::Mutex<Vec<thread::JoinHandle<()>>> = std::sync::Mutex::new(Vec::new());

/// Connects to the coordinator's socket. `None`: nobody listens. `WouldBlock`: there is no place left in its queue.
pub(crate) fn connect(directory: &Path, _identity: &str) -> io::Result<Option<UnixStream>> {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    // A path that is too long for an address is reached through the directory's descriptor.
    let opened = File::open(directory)?;
    let short = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(SOCKET);
    let address = SocketAddrUnix::new(directory.join(SOCKET)).or_else(|_too_long| SocketAddrUnix::new(short))?;
    // Not to wait in the kernel for a place in the queue: a stopped process would keep us there.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTSOCK | Errno::PROTOTYPE) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(Some(stream))
}

/// Whose socket it is, as far as the kernel tells.
pub(crate) fn peer(stream: &UnixStream) -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        let pid = rustix::net::sockopt::socket_peercred(stream).ok()?.pid;
        u32::try_from(pid.as_raw_nonzero().get()).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        None
    }
}
