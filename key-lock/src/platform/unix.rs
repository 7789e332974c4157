//! Linux, macOS and the other Unixes. Everything is relative to the directory's descriptor.

use crate::directory_identity::DirectoryIdentity;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

/// Creates the directory for its owner alone, and its parents, as far as they are missing.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(retry(|| rustix::fs::open(path, flags, Mode::empty()))?))
}

/// Which file it is.
pub(crate) fn identity_of(file: &File) -> io::Result<DirectoryIdentity> {
    Ok(identity(&rustix::fs::fstat(file)?))
}

/// Which file the path leads to. `None`: to none.
pub(crate) fn identity_at_path(path: &Path) -> io::Result<Option<DirectoryIdentity>> {
    found(rustix::fs::stat(path))
}

/// Which file the name in the directory leads to. `None`: to none.
pub(crate) fn identity_at(directory: &File, _path: &Path, name: &str) -> io::Result<Option<DirectoryIdentity>> {
    found(rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW))
}

fn found(stat: rustix::io::Result<rustix::fs::Stat>) -> io::Result<Option<DirectoryIdentity>> {
    match stat {
        Ok(stat) => Ok(Some(identity(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "the types of these fields differ between the systems"
)]
fn identity(stat: &rustix::fs::Stat) -> DirectoryIdentity {
    DirectoryIdentity { device: stat.st_dev as u64, file: stat.st_ino as u64 }
}

pub(crate) fn create_subdirectory(directory: &File, _path: &Path, name: &str) -> io::Result<()> {
    match rustix::fs::mkdirat(directory, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens a lock file, or creates it for its owner alone. A link is not followed: it would lead the lock elsewhere.
pub(crate) fn open_lock_file(directory: &File, _path: &Path, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    // First without `CREATE`: some systems refuse to "create" another user's file that exists, in a directory with the sticky bit.
    let opened = match retry(|| rustix::fs::openat(directory, name, flags, Mode::empty())) {
        Err(Errno::NOENT) => {
            retry(|| rustix::fs::openat(directory, name, flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR))
        }
        opened => opened,
    };
    Ok(File::from(opened?))
}

/// Creates a new file for its owner alone.
pub(crate) fn create_new(directory: &File, _path: &Path, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    Ok(File::from(retry(|| rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR))?))
}

pub(crate) fn open_existing(directory: &File, _path: &Path, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(retry(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?))
}

pub(crate) fn open_for_reading(directory: &File, _path: &Path, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(retry(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?))
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

/// The names in the directory.
pub(crate) fn names(directory: &File, _path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        if let Ok(name) = entry?.file_name().to_str() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Frees the lock of this open file, also for a child process that has inherited it.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    Ok(retry(|| rustix::fs::flock(file, FlockOperation::Unlock))?)
}

/// Starts a child that inherits the locked file.
pub(crate) fn spawn_with(file: &File, command: &mut Command) -> io::Result<Child> {
    let inherited = file.try_clone()?;
    let hand_over = move || {
        rustix::io::fcntl_setfd(inherited.as_fd(), FdFlags::empty())?;
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec. It makes one system call, which allocates nothing and takes no
    // lock. The descriptor is open there: the child has a copy of this process's descriptors. Only the child's copy loses its flag.
    unsafe { command.pre_exec(hand_over) };
    command.spawn()
}

/// The owner and the mode of a file, where that may explain a refusal.
pub(crate) fn describe_owner(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    Some(format!(" (it belongs to user {}, with mode {:o})", found.uid(), found.mode() & 0o7777))
}

/// No descriptors left, here or in the whole system; or the disk does not answer.
pub(crate) fn is_passing_lack(error: &io::Error) -> bool {
    let passing = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::DQUOT, Errno::NOLCK, Errno::AGAIN];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    rustix::io::retry_on_intr(&mut call)
}
