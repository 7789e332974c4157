//! Windows. Names cannot be opened relative to a directory here, so that paths are joined. The comparison of the locked file with its path
//! makes up for it: a lock that is given out is on the file that others find.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::{size_of, zeroed};
use std::ops::ControlFlow;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::ptr;
use std::sync::OnceLock;

use windows_sys::Win32::Foundation::{
    ERROR_DELETE_PENDING, ERROR_SHARING_VIOLATION, ERROR_TOO_MANY_OPEN_FILES, HANDLE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE,
    GetFileInformationByHandle, UnlockFile,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
};
use windows_sys::Win32::System::Threading::{CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME};

use super::{Facts, Opened, Ownership};
use crate::directory_identity::DirectoryIdentity;

const SHARE_ALL: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// Creates the directory and its parents, as far as they are missing. They inherit the access rights of the one above.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).share_mode(SHARE_ALL).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    if file.metadata()?.is_dir() { Ok(file) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Opens the directory of that name, or creates it.
pub(crate) fn open_subdirectory(_directory: &File, path: &Path, name: &str) -> io::Result<File> {
    let path = path.join(name);
    match fs::create_dir(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => open_directory(&path),
    }
}

pub(crate) fn facts(file: &File) -> io::Result<Facts> {
    Ok(Facts { identity: identity(file)?, is_file: file.metadata()?.is_file() })
}

fn identity(file: &File) -> io::Result<DirectoryIdentity> {
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut found: BY_HANDLE_FILE_INFORMATION = unsafe { zeroed() };
    // SAFETY: the handle is open, and the structure is writable and of the type that the call fills.
    let done = unsafe { GetFileInformationByHandle(handle(file), &raw mut found) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    let number = (u64::from(found.nFileIndexHigh) << 32) | u64::from(found.nFileIndexLow);
    Ok(DirectoryIdentity { device: u64::from(found.dwVolumeSerialNumber), file: number })
}

/// Which file or directory the path leads to. `None`: to none.
pub(crate) fn identity_at_path(path: &Path) -> io::Result<Option<DirectoryIdentity>> {
    // No access is asked for, so that nobody's lock or rights are in the way.
    let mut options = OpenOptions::new();
    match options.access_mode(0).share_mode(SHARE_ALL).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path) {
        Ok(file) => identity(&file).map(Some),
        // `NotFound` stands for a missing path, and for one whose directory is missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_one_of(&error, &[ERROR_DELETE_PENDING]) => Ok(None),
        Err(error) => Err(error),
    }
}

/// For all, so that whoever looks at a lock or removes the file of an idle key is not shut out.
fn open_for_all() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).share_mode(SHARE_ALL);
    options
}

/// Opens a file that is there.
pub(crate) fn open_existing(_directory: &File, path: &Path, name: &str) -> io::Result<Opened> {
    match open_for_all().open(path.join(name)) {
        Ok(file) => Ok(Opened::File(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Opened::Missing),
        // A virus scanner or a backup has it open, or it is going.
        Err(error) if is_one_of(&error, &[ERROR_SHARING_VIOLATION, ERROR_DELETE_PENDING]) => Ok(Opened::Busy),
        Err(error) => Err(error),
    }
}

/// Creates a file. `None`: there is one already.
pub(crate) fn create_new(_directory: &File, path: &Path, name: &str) -> io::Result<Option<File>> {
    match open_for_all().create_new(true).open(path.join(name)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists || is_one_of(&error, &[ERROR_DELETE_PENDING]) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn open_for_reading(_directory: &File, path: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new().read(true).share_mode(SHARE_ALL).open(path.join(name))
}

pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

pub(crate) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

pub(crate) fn remove(_directory: &File, path: &Path, name: &str) -> io::Result<()> {
    fs::remove_file(path.join(name))
}

pub(crate) fn rename(_directory: &File, path: &Path, from: &str, to: &str) -> io::Result<()> {
    fs::rename(path.join(from), path.join(to))
}

/// NTFS makes a rename durable with its journal; a directory has no flush of its own.
pub(crate) fn sync_directory(_directory: &File) -> io::Result<()> {
    Ok(())
}

/// Shows the names in the directory, until it is told to stop.
pub(crate) fn visit_names(
    _directory: &File,
    path: &Path,
    mut visit: impl FnMut(&str) -> ControlFlow<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        // No name of ours is anything but ASCII.
        if let Some(name) = entry?.file_name().to_str()
            && visit(name).is_break()
        {
            break;
        }
    }
    Ok(())
}

/// Frees the lock: of the first byte, which is what `fd-lock` locks. Closing frees it too, but only when the system comes to it.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    // SAFETY: the handle is open.
    let done = unsafe { UnlockFile(handle(file), 0, 0, 1, 0) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts a child that ends with this process: a lock cannot be inherited here, so that no child may outlive it.
pub(crate) fn spawn_with(_file: &File, command: &mut Command) -> io::Result<Child> {
    let job = job()?;
    // Suspended until it is in the job: what it starts is in the job too then.
    let spawned = command.creation_flags(CREATE_SUSPENDED).spawn();
    command.creation_flags(0);
    let mut child = spawned?;
    // SAFETY: both handles are open: the job's for ever, the child's as long as `child`.
    let assigned = unsafe { AssignProcessToJobObject(job.as_raw_handle() as HANDLE, child.as_raw_handle() as HANDLE) };
    let resumed = if assigned == 0 { Err(io::Error::last_os_error()) } else { resume(child.id()) };
    if let Err(error) = resumed {
        // Not one step of it was run.
        child.kill()?;
        child.wait()?;
        return Err(error);
    }
    Ok(child)
}

/// Lets a process run that was created suspended. It has one thread then, whose handle std does not give out: it is looked up.
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: it takes numbers only.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just made, and nobody else owns it.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot.cast()) };
    let listed = snapshot.as_raw_handle() as HANDLE;
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut entry: THREADENTRY32 = unsafe { zeroed() };
    entry.dwSize = length_of::<THREADENTRY32>();
    // SAFETY: the handle is open, and the structure is writable and says its length.
    let mut more = unsafe { Thread32First(listed, &raw mut entry) };
    while more != 0 {
        if entry.th32OwnerProcessID == process {
            return resume_thread(entry.th32ThreadID);
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(listed, &raw mut entry) };
    }
    Err(io::Error::other("the thread of the new process is not listed"))
}

fn resume_thread(thread: u32) -> io::Result<()> {
    // SAFETY: it takes numbers only.
    let opened = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, thread) };
    if opened.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just made, and nobody else owns it.
    let opened = unsafe { OwnedHandle::from_raw_handle(opened.cast()) };
    // SAFETY: the handle is open.
    let suspended = unsafe { ResumeThread(opened.as_raw_handle() as HANDLE) };
    if suspended == u32::MAX { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The job of this process. What is in it ends when its last handle is closed, which this process never does before it ends.
fn job() -> io::Result<&'static OwnedHandle> {
    static JOB: OnceLock<OwnedHandle> = OnceLock::new();
    if let Some(job) = JOB.get() {
        return Ok(job);
    }
    // SAFETY: both pointers may be null: default security, no name.
    let created = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
    if created.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just made, and nobody else owns it.
    let job = unsafe { OwnedHandle::from_raw_handle(created.cast()) };
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { zeroed() };
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    // SAFETY: the handle is open, and pointer and length describe the structure that this class of information has.
    let set = unsafe {
        SetInformationJobObject(
            job.as_raw_handle() as HANDLE,
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            length_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
        )
    };
    if set == 0 {
        return Err(io::Error::last_os_error());
    }
    // Of two threads that come here at once, the job of one is closed, with nothing in it.
    Ok(JOB.get_or_init(|| job))
}

fn length_of<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("the system's structures are short")
}

/// Who owns a file is not told here.
pub(crate) fn ownership(_path: &Path) -> Option<Ownership> {
    None
}

/// A directory in place of a file is refused with the words for missing rights.
pub(crate) fn is_not_a_file(_error: &io::Error) -> bool {
    false
}

/// No handles left.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    is_one_of(error, &[ERROR_TOO_MANY_OPEN_FILES])
}

/// Something ran out that others use too, or somebody else has the file open in a way that shuts us out.
pub(crate) fn is_passing_lack(error: &io::Error) -> bool {
    is_out_of_descriptors(error) || is_one_of(error, &[ERROR_SHARING_VIOLATION, ERROR_DELETE_PENDING])
}

fn is_one_of(error: &io::Error, these: &[u32]) -> bool {
    error.raw_os_error().and_then(|code| u32::try_from(code).ok()).is_some_and(|code| these.contains(&code))
}

fn handle(file: &File) -> HANDLE {
    file.as_raw_handle() as HANDLE
}
