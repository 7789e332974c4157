//! Windows. There is no descriptor-relative opening, so paths are joined; the comparison of identities after the lock makes up for it.

use crate::directory_identity::DirectoryIdentity;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::{ERROR_TOO_MANY_OPEN_FILES, HANDLE};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE,
    GetFileInformationByHandle,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
};

const SHARE_ALL: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// Creates the directory and its parents, as far as they are missing. It inherits the access rights of the one above.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).share_mode(SHARE_ALL).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    if file.metadata()?.is_dir() { Ok(file) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Which file it is.
pub(crate) fn identity_of(file: &File) -> io::Result<DirectoryIdentity> {
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut information: BY_HANDLE_FILE_INFORMATION = unsafe { zeroed() };
    // SAFETY: the handle is open, and the structure is writable and of the type that the call fills.
    let done = unsafe { GetFileInformationByHandle(handle(file), &raw mut information) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    let number = (u64::from(information.nFileIndexHigh) << 32) | u64::from(information.nFileIndexLow);
    Ok(DirectoryIdentity { device: u64::from(information.dwVolumeSerialNumber), file: number })
}

/// Which file the path leads to. `None`: to none.
pub(crate) fn identity_at_path(path: &Path) -> io::Result<Option<DirectoryIdentity>> {
    // No access is asked for, so that a locked or foreign file can be told too.
    match OpenOptions::new().access_mode(0).share_mode(SHARE_ALL).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path) {
        Ok(file) => identity_of(&file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which file the name in the directory leads to. `None`: to none.
pub(crate) fn identity_at(_directory: &File, path: &Path, name: &str) -> io::Result<Option<DirectoryIdentity>> {
    identity_at_path(&path.join(name))
}

pub(crate) fn create_subdirectory(_directory: &File, path: &Path, name: &str) -> io::Result<()> {
    match std::fs::create_dir(path.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).share_mode(SHARE_ALL);
    options
}

/// Opens a lock file, or creates it.
pub(crate) fn open_lock_file(_directory: &File, path: &Path, name: &str) -> io::Result<File> {
    options().create(true).truncate(false).open(path.join(name))
}

/// Creates a new file.
pub(crate) fn create_new(_directory: &File, path: &Path, name: &str) -> io::Result<File> {
    options().create_new(true).open(path.join(name))
}

pub(crate) fn open_existing(_directory: &File, path: &Path, name: &str) -> io::Result<File> {
    options().open(path.join(name))
}

pub(crate) fn open_for_reading(_directory: &File, path: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new().read(true).share_mode(SHARE_ALL).open(path.join(name))
}

pub(crate) fn remove(_directory: &File, path: &Path, name: &str) -> io::Result<()> {
    std::fs::remove_file(path.join(name))
}

pub(crate) fn rename(_directory: &File, path: &Path, from: &str, to: &str) -> io::Result<()> {
    std::fs::rename(path.join(from), path.join(to))
}

/// NTFS makes a rename durable with its journal; a directory has no flush of its own.
pub(crate) fn sync_directory(_directory: &File) -> io::Result<()> {
    Ok(())
}

/// The names in the directory.
pub(crate) fn names(_directory: &File, path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        if let Some(name) = entry?.file_name().to_str() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The lock ends when the handle is closed, which the caller does next: no child has it, since handles are not inherited.
pub(crate) fn unlock(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Starts a child that ends with this process: it must not outlive the lock.
pub(crate) fn spawn_with(_file: &File, command: &mut Command) -> io::Result<Child> {
    /// The process's first thread does not run until the process is in the job.
    const CREATE_SUSPENDED: u32 = 0x0000_0004;
    let job = job()?;
    let mut child = command.creation_flags(CREATE_SUSPENDED).spawn()?;
    // SAFETY: both handles are open: the job's for ever, the child's as long as `child`.
    let assigned = unsafe { AssignProcessToJobObject(job.as_raw_handle() as HANDLE, child.as_raw_handle() as HANDLE) };
    let resumed = if assigned == 0 { Err(io::Error::last_os_error()) } else { resume(&child) };
    if let Err(error) = resumed {
        // Not one step of it was run.
        child.kill()?;
        child.wait()?;
        return Err(error);
    }
    Ok(child)
}

/// Lets a process run that was created suspended.
fn resume(child: &Child) -> io::Result<()> {
    use std::os::windows::process::ChildExt;
    // SAFETY: the handle is that of the child's first thread, open as long as `child`.
    let suspended = unsafe {
        windows_sys::Win32::System::Threading::ResumeThread(child.main_thread_handle().as_raw_handle() as HANDLE)
    };
    if suspended == u32::MAX { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The job of this process: whatever is in it ends when this process does, since nobody else has a handle of it.
fn job() -> io::Result<&'static OwnedHandle> {
    static JOB: OnceLock<OwnedHandle> = OnceLock::new();
    if let Some(job) = JOB.get() {
        return Ok(job);
    }
    // SAFETY: both pointers may be null: default security, no name.
    let created = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
    if created.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just created, and nobody else owns it.
    let job = unsafe { OwnedHandle::from_raw_handle(created.cast()) };
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { zeroed() };
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let length = u32::try_from(size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>()).unwrap_or_default();
    // SAFETY: the handle is open, and pointer and length describe the structure that this class of information needs.
    let set = unsafe {
        SetInformationJobObject(
            job.as_raw_handle() as HANDLE,
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            length,
        )
    };
    if set == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(JOB.get_or_init(|| job))
}

/// Who owns a file is not in its metadata here.
pub(crate) fn describe_owner(_path: &Path) -> Option<String> {
    None
}

/// No handles left.
pub(crate) fn is_passing_lack(error: &io::Error) -> bool {
    error.raw_os_error().and_then(|code| u32::try_from(code).ok()) == Some(ERROR_TOO_MANY_OPEN_FILES)
}

fn handle(file: &File) -> HANDLE {
    file.as_raw_handle() as HANDLE
}
