//! Linux, macOS and the other Unixes. Names are relative to the directory's descriptor; paths serve only to compare.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::{Errno, FdFlags, retry_on_intr};

use super::{Facts, Opened, Ownership};
use crate::directory_identity::DirectoryIdentity;

const OWNER_ALL: Mode = Mode::RWXU;
const OWNER_READS_AND_WRITES: Mode = Mode::RUSR.union(Mode::WUSR);

/// How a file is opened. `NOFOLLOW`: a link would lead a lock elsewhere. `NONBLOCK`: a pipe in place of the file must not stop us.
const OPEN_FILE: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);
const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// Creates the directory for its owner alone, and its parents, as far as they are missing.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    match create_one_directory(path) {
        Err(Errno::NOENT) => {
            create_directory(path.parent().ok_or(Errno::NOENT)?)?;
            Ok(create_one_directory(path)?)
        }
        done => Ok(done?),
    }
}

fn create_one_directory(path: &Path) -> rustix::io::Result<()> {
    match rustix::fs::mkdir(path, OWNER_ALL) {
        Ok(()) => give_owner_all(rustix::fs::CWD, path),
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives back to a new directory what an odd umask has taken. The umask belongs to the process, and other threads use it.
fn give_owner_all(at: impl rustix::fd::AsFd, path: &Path) -> rustix::io::Result<()> {
    let mode = mode_of(&rustix::fs::statat(&at, path, AtFlags::SYMLINK_NOFOLLOW)?);
    if mode.contains(OWNER_ALL) { Ok(()) } else { rustix::fs::chmodat(at, path, mode | OWNER_ALL, AtFlags::empty()) }
}

pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    Ok(File::from(retry_on_intr(|| rustix::fs::open(path, OPEN_DIRECTORY, Mode::empty()))?))
}

/// Opens the directory of that name, or creates it for its owner alone. A link is not followed.
pub(crate) fn open_subdirectory(directory: &File, _path: &Path, name: &str) -> io::Result<File> {
    let flags = OPEN_DIRECTORY | OFlags::NOFOLLOW;
    let open = || retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()));
    let created = match open() {
        Err(Errno::NOENT) => match rustix::fs::mkdirat(directory, name, OWNER_ALL) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        },
        opened => return Ok(File::from(opened?)),
    };
    if created {
        give_owner_all(directory, Path::new(name))?;
    }
    let file = File::from(open()?);
    // Looked at again: what was opened need not be what was made, and root must give away nothing that has content.
    if created && is_empty(&file)? {
        give_to_owner_of(directory, &file)?;
    }
    Ok(file)
}

fn is_empty(directory: &File) -> io::Result<bool> {
    let mut empty = true;
    visit_names(directory, Path::new(""), |_| {
        empty = false;
        ControlFlow::Break(())
    })?;
    Ok(empty)
}

/// A file that root makes in another user's directory becomes that user's, who could not open it otherwise. Call it only for what was
/// just created: root must not give away a file that somebody else has linked to.
fn give_to_owner_of(directory: &File, new: &File) -> rustix::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let stat = rustix::fs::fstat(directory)?;
    let (owner, group) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
    if owner.is_root() { Ok(()) } else { rustix::fs::fchown(new, Some(owner), Some(group)) }
}

pub(crate) fn facts(file: &File) -> io::Result<Facts> {
    let stat = rustix::fs::fstat(file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(Facts { identity: identity(&stat), is_file })
}

/// Which file or directory the path leads to. `None`: to none.
pub(crate) fn identity_at_path(path: &Path) -> io::Result<Option<DirectoryIdentity>> {
    match rustix::fs::stat(path) {
        Ok(stat) => Ok(Some(identity(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "the types of the fields differ between the systems"
)]
fn identity(stat: &Stat) -> DirectoryIdentity {
    DirectoryIdentity { device: stat.st_dev as u64, file: stat.st_ino as u64 }
}

fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode)
}

/// Opens a file that is there.
pub(crate) fn open_existing(directory: &File, _path: &Path, name: &str) -> io::Result<Opened> {
    match retry_on_intr(|| rustix::fs::openat(directory, name, OPEN_FILE, Mode::empty())) {
        Ok(file) => Ok(Opened::File(File::from(file))),
        Err(Errno::NOENT) => Ok(Opened::Missing),
        Err(error) => Err(error.into()),
    }
}

/// Creates a file for its owner alone. `None`: there is one already.
pub(crate) fn create_new(directory: &File, _path: &Path, name: &str) -> io::Result<Option<File>> {
    let flags = OPEN_FILE | OFlags::CREATE | OFlags::EXCL;
    let file = match retry_on_intr(|| rustix::fs::openat(directory, name, flags, OWNER_READS_AND_WRITES)) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mode = mode_of(&rustix::fs::fstat(&file)?);
    if !mode.contains(OWNER_READS_AND_WRITES) {
        rustix::fs::fchmod(&file, mode | OWNER_READS_AND_WRITES)?;
    }
    give_to_owner_of(directory, &file)?;
    Ok(Some(file))
}

pub(crate) fn open_for_reading(directory: &File, _path: &Path, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(File::from(retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?))
}

pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

pub(crate) fn remove(directory: &File, _path: &Path, name: &str) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
}

pub(crate) fn rename(directory: &File, _path: &Path, from: &str, to: &str) -> io::Result<()> {
    Ok(rustix::fs::renameat(directory, from, directory, to)?)
}

/// Makes a rename durable.
pub(crate) fn sync_directory(directory: &File) -> io::Result<()> {
    Ok(rustix::fs::fsync(directory)?)
}

/// Shows the names in the directory, until it is told to stop.
pub(crate) fn visit_names(
    directory: &File,
    _path: &Path,
    mut visit: impl FnMut(&str) -> ControlFlow<()>,
) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        // No name of ours is anything but ASCII.
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name != "." && name != ".." && visit(name).is_break() {
            break;
        }
    }
    Ok(())
}

/// Frees the lock of this open file, for every process that has it open.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::flock(file, FlockOperation::Unlock))?)
}

/// The lowest number under which a child gets the lock: 0 to 2 are its standard streams, and a shell script opens and closes 3 to 9 as it
/// likes, which would end the lock under it.
const FIRST_HANDED: i32 = 10;

/// Starts a child that inherits the open file.
pub(crate) fn spawn_with(file: &File, command: &mut Command) -> io::Result<Child> {
    // A copy, closed when this returns: the child has its own by then.
    let handed = rustix::io::fcntl_dupfd_cloexec(file, FIRST_HANDED)?;
    let number = Arc::new(AtomicI32::new(handed.as_raw_fd()));
    let seen_by_child = Arc::clone(&number);
    let keep_open = move || {
        let number = seen_by_child.load(Ordering::Relaxed);
        if number >= 0 {
            // SAFETY: the child has a copy of all descriptors that this process had when it was forked, and `handed` was open then.
            let handed = unsafe { BorrowedFd::borrow_raw(number) };
            // In the child alone: each process has its own flags, so that no child of another thread inherits the lock.
            rustix::io::fcntl_setfd(handed, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec. It reads a number and makes one system call; it allocates
    // nothing and waits for no lock.
    unsafe { command.pre_exec(keep_open) };
    let child = command.spawn();
    // The closure stays in `command`. When that is used again, the number may be another file's.
    number.store(-1, Ordering::Relaxed);
    child
}

/// Whom the file belongs to. `None`: it cannot be looked at.
pub(crate) fn ownership(path: &Path) -> Option<Ownership> {
    let found = std::fs::metadata(path).ok()?;
    Some(Ownership { owner: found.uid(), mode: found.mode() & 0o7777 })
}

/// Opening was refused because there is something else than a file: a link, a directory, a socket.
pub(crate) fn is_not_a_file(error: &io::Error) -> bool {
    // MLINK is what FreeBSD says of a link.
    is_one_of(error, &[Errno::LOOP, Errno::MLINK, Errno::ISDIR, Errno::NXIO])
}

/// No descriptors left, here or in the whole system.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    is_one_of(error, &[Errno::MFILE, Errno::NFILE])
}

/// Something ran out that others use too, or a device failed.
pub(crate) fn is_passing_lack(error: &io::Error) -> bool {
    is_out_of_descriptors(error) || is_one_of(error, &[Errno::IO, Errno::NOLCK, Errno::AGAIN])
}

fn is_one_of(error: &io::Error, these: &[Errno]) -> bool {
    these.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
