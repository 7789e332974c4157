//! Windows: console events, locks of single bytes, and two pipes at once.
//!
//! There are no signals. Ctrl-C and Ctrl-Break go to all processes of the console, the command too, so that this process only has to
//! outlive it. A command dies with this process, in a job.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read as _};
use std::mem;
use std::os::windows::io::{AsHandle as _, AsRawHandle as _, OwnedHandle};
use std::os::windows::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::ptr;
use std::sync::{OnceLock, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_NOT_LOCKED, GetLastError, HANDLE};
use windows_sys::Win32::Storage::FileSystem::{
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, UnlockFileEx,
};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::Win32::System::Pipes::PeekNamedPipe;
use windows_sys::Win32::System::Threading::{
    INFINITE, OpenProcess, PROCESS_TERMINATE, TerminateProcess, WaitForSingleObject,
};

use crate::exit::End;
use crate::platform::{Byte, Received};
use crate::spool::{CHUNK, HEAD, Stream};

pub(crate) const TERMINATE: i32 = 15;
pub(crate) const KILL: i32 = 9;

/// The number that stands for Ctrl-C: as that of the signal on Unix.
const INTERRUPT: i32 = 2;

/// No file of ours is so long, so that a lock there keeps nobody from its bytes.
const BEYOND: u64 = 1 << 62;

/// A child in a process group of its own gets no Ctrl-C.
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

/// How often a pipe that does not tell is looked at.
const LOOK: Duration = Duration::from_millis(2);

static EVENTS: OnceLock<mpsc::UnboundedSender<Received>> = OnceLock::new();

/// Takes the events of the console over.
pub(crate) fn listen() -> io::Result<mpsc::UnboundedReceiver<Received>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    drop(EVENTS.set(sender));
    // SAFETY: `handle` stays for as long as the process.
    if unsafe { SetConsoleCtrlHandler(Some(handle), 1) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(receiver)
}

/// Runs on a thread of its own.
unsafe extern "system" fn handle(event: u32) -> i32 {
    let Some(events) = EVENTS.get().filter(|_| matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT)) else { return 0 };
    i32::from(events.send(Received { signal: INTERRUPT, from_terminal: true }).is_ok())
}

/// Ends a child that was not yet waited for. There is no other word to it.
pub(crate) fn send(pid: u32, _signal: i32) {
    // SAFETY: it has no preconditions.
    let process = unsafe { OpenProcess(PROCESS_TERMINATE, 0, pid) };
    if process.is_null() {
        return;
    }
    // SAFETY: the handle was just opened.
    unsafe { TerminateProcess(process, 1) };
    // SAFETY: it is closed once.
    unsafe { windows_sys::Win32::Foundation::CloseHandle(process) };
}

/// Waits until the child has ended; its handle keeps its number.
pub(crate) fn wait_for_end(child: &Child) {
    // SAFETY: the handle is the child's, and open.
    unsafe { WaitForSingleObject(child.as_raw_handle() as HANDLE, INFINITE) };
}

pub(crate) fn end_of(status: ExitStatus) -> End {
    End::code(status.code().unwrap_or(255))
}

/// There is no signal to end of.
pub(crate) fn die_of(_signal: i32) {}

/// A new file has the directory's access list.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Tries the lock of a whole file, which ends with the open file. `false`: another has it. Locks are mandatory here, so it is one beyond
/// the bytes.
pub(crate) fn try_hold(file: &File) -> io::Result<bool> {
    lock_byte(file, BEYOND, Byte::Exclusive)
}

/// Locks or unlocks one byte of a file. `false`: another has it. It never waits.
pub(crate) fn lock_byte(file: &File, offset: u64, byte: Byte) -> io::Result<bool> {
    // SAFETY: all zeros is a valid `OVERLAPPED`.
    let mut at: OVERLAPPED = unsafe { mem::zeroed() };
    at.Anonymous.Anonymous.Offset = offset as u32;
    at.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
    let handle = file.as_raw_handle() as HANDLE;
    let flags = match byte {
        Byte::Free => None,
        Byte::Shared => Some(LOCKFILE_FAIL_IMMEDIATELY),
        Byte::Exclusive => Some(LOCKFILE_FAIL_IMMEDIATELY | LOCKFILE_EXCLUSIVE_LOCK),
    };
    let done = match flags {
        // SAFETY: the handle is open, and the structure outlives the call, which does not wait.
        Some(flags) => unsafe { LockFileEx(handle, flags, 0, 1, 0, &raw mut at) },
        // SAFETY: as above.
        None => unsafe { UnlockFileEx(handle, 0, 1, 0, &raw mut at) },
    };
    if done != 0 {
        return Ok(true);
    }
    // SAFETY: it has no preconditions.
    match unsafe { GetLastError() } {
        ERROR_LOCK_VIOLATION | ERROR_IO_PENDING => Ok(false),
        ERROR_NOT_LOCKED if byte == Byte::Free => Ok(true),
        error => Err(io::Error::from_raw_os_error(error as i32)),
    }
}

/// Reads both streams as they come, until the command has ended. See the Unix one.
pub(crate) fn pump(
    stdout: ChildStdout,
    stderr: ChildStderr,
    ended: &PipeReader,
    mut take: impl FnMut(Stream, &mut [u8]),
) -> io::Result<[Option<Stdio>; 2]> {
    let mut pipes = [
        (Stream::Out, Some(File::from(OwnedHandle::from(stdout)))),
        (Stream::Err, Some(File::from(OwnedHandle::from(stderr)))),
    ];
    // Nothing waits for several pipes at once, so the end is told by a thread and the pipes are looked at.
    let mut ended = ended.try_clone()?;
    let (tell, told) = std_mpsc::channel::<()>();
    thread::Builder::new().name("end".to_owned()).spawn(move || {
        drop(ended.read(&mut [0]));
        drop(tell);
    })?;
    let mut buffer = vec![0; HEAD + CHUNK];
    loop {
        let is_over = matches!(told.recv_timeout(LOOK), Err(std_mpsc::RecvTimeoutError::Disconnected));
        for (stream, pipe) in &mut pipes {
            let Some(file) = pipe else { continue };
            // What is there by now.
            let Some(mut there) = available(file) else {
                *pipe = None;
                continue;
            };
            while there > 0 {
                let length = file.read(&mut buffer[HEAD..HEAD + there.min(CHUNK)])?;
                take(*stream, &mut buffer[..HEAD + length]);
                there = there.saturating_sub(length.max(1));
            }
        }
        if is_over {
            // What still has a writer can be handed to nobody here: that process finds its pipe closed.
            return Ok([None, None]);
        }
    }
}

/// How many bytes can be read. `None`: it has no writer any more.
fn available(pipe: &File) -> Option<usize> {
    let mut length = 0;
    let handle = pipe.as_raw_handle() as HANDLE;
    // SAFETY: the handle is open, and the pointers are valid or null.
    let done = unsafe { PeekNamedPipe(handle, ptr::null_mut(), 0, ptr::null_mut(), &raw mut length, ptr::null_mut()) };
    (done != 0).then_some(length as usize)
}

/// Streams always block here.
pub(crate) fn wait_writable(_file: &File) {
    thread::sleep(LOOK);
}

/// Copies of the standard streams, without a buffer.
pub(crate) fn own_streams() -> io::Result<[File; 2]> {
    Ok([
        File::from(io::stdout().as_handle().try_clone_to_owned()?),
        File::from(io::stderr().as_handle().try_clone_to_owned()?),
    ])
}

/// Makes a command apart from this one's process group.
pub(crate) fn detach(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// How this program is started again.
pub(crate) fn own_program() -> io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// Nothing is handed over: see [`pump`].
pub(crate) fn drain() {}

/// Connects to the coordinator's pipe, whose name has the directory's identity and the epoch. `None`: nobody listens.
pub(crate) fn connect(directory: &Path, identity: &str) -> io::Result<Option<File>> {
    let Ok(epoch) = std::fs::read_to_string(directory.join("flight.epoch")) else { return Ok(None) };
    match OpenOptions::new().read(true).write(true).open(format!(r"\\.\pipe\{identity}-{}", epoch.trim())) {
        Ok(pipe) => Ok(Some(pipe)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whose pipe it is: the report tells.
pub(crate) fn peer(_pipe: &File) -> Option<u32> {
    None
}
