//! The kernel lock on a file, and the order of steps that makes it mean something.
//!
//! # Invariants
//!
//! 1. A lock that is given out is on the file that its path leads to: they are compared after the lock was taken. Otherwise two could hold
//!    "the" lock, one on a file that was removed between its opening and its locking, one on the file that took its place.
//! 2. No call waits in the kernel. A thread that does cannot be called back, and takes the lock later, for nobody.
//! 3. The lock ends by an explicit unlock, before the file is closed. By closing alone it stays with any child that is just between fork
//!    and exec, and the next look finds a lock that nobody holds.
//! 4. Only the process that took the lock unlocks it. A forked child shares the open file, and would free its parent's lock.
//!
//! This is the only file that knows `fd-lock`.

use std::fmt;
use std::fs::File;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};

use crate::directory_identity::DirectoryIdentity;
use crate::error::{LockError, LockStep, LockTarget};
use crate::local_directory::{LocalDirectory, is_plain};
use crate::network_fs;
use crate::platform::{self, Opened};

/// How often the file may be replaced between its opening and its locking before that is an error. A sweep does it once in a while, two
/// sweeps in a row hardly ever, a broken cleaner for ever.
const TURNS: u32 = 100;

/// The most that [`LockFile::read_text`] reads.
const LONGEST_TEXT: usize = 1 << 16;

/// A file that is locked exclusively, until this value is dropped or the process ends.
///
/// # Drop
///
/// Dropping it unlocks, as [`unlock`](LockFile::unlock) does, and says nothing of a failure.
///
/// # Fork
///
/// In a process that was forked from the holder, the lock is the parent's: dropping and unlocking only close the file there, and
/// [`is_current`](LockFile::is_current) is false. The parent's lock stays with the child's copy, though, if the parent dies before the child
/// has closed it.
#[must_use = "the lock is let go of when the value is dropped"]
pub struct LockFile {
    path: PathBuf,
    file: File,
    identity: DirectoryIdentity,
    /// The process that took the lock.
    holder: u32,
    released: bool,
}

/// What to do when there is no file of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Leave,
}

/// What came of one look at a lock.
#[derive(Debug)]
pub(crate) enum Attempt {
    Locked { lock: LockFile, created: bool },
    Busy,
    Missing,
}

/// What came of locking an open file.
#[derive(Debug)]
enum Claim {
    Locked(LockFile),
    Busy,
    /// The path leads to another file by now, or nowhere.
    Elsewhere,
    NotAFile,
}

impl LockFile {
    /// Takes the lock of the file of that name in the directory; creates the file, with mode 0600, if it is missing. `None`: another has the
    /// lock at this moment. It never waits.
    ///
    /// Others look at a lock by taking it for a moment, so that one busy look does not mean that somebody works under the lock.
    ///
    /// Uncontended it costs four system calls (open, flock, fstat, stat), and two to give it back.
    ///
    /// # Errors
    ///
    /// See [`LockError`]. Nothing is held then.
    pub fn try_lock(directory: &LocalDirectory, name: &str) -> Result<Option<LockFile>, LockError> {
        match LockFile::attempt(directory, name, IfMissing::Create, &|| None)? {
            Attempt::Locked { lock, .. } => Ok(Some(lock)),
            Attempt::Busy | Attempt::Missing => Ok(None),
        }
    }

    /// `key` is what an error should name.
    pub(crate) fn attempt(
        directory: &LocalDirectory,
        name: &str,
        if_missing: IfMissing,
        key: &dyn Fn() -> Option<Box<str>>,
    ) -> Result<Attempt, LockError> {
        if !is_plain(name) {
            return Err(LockError::Name { name: name.to_owned() });
        }
        let path = directory.path().join(name);
        let target = || LockTarget::new(path.clone(), key());
        let failed = |step, source| {
            let file_system = network_fs::inspect(directory.file(), directory.path()).ok().map(|found| found.name);
            LockError::new(step, target(), file_system, source)
        };
        let replaced = || LockError::DirectoryReplaced { directory: directory.path().to_owned() };
        let is_current = || directory.is_current().map_err(|source| failed(LockStep::Compare, source));

        for _ in 0..TURNS {
            let opened = platform::open_existing(directory.file(), directory.path(), name);
            let (file, created) = match opened.map_err(|source| failed(LockStep::Open, source))? {
                Opened::File(file) => (file, false),
                Opened::Busy => return Ok(Attempt::Busy),
                Opened::Missing if if_missing == IfMissing::Leave => {
                    return if is_current()? { Ok(Attempt::Missing) } else { Err(replaced()) };
                }
                Opened::Missing => match platform::create_new(directory.file(), directory.path(), name) {
                    Ok(Some(file)) => (file, true),
                    // Another was quicker.
                    Ok(None) => continue,
                    // Nothing can be made in a directory that was removed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(replaced()),
                    Err(source) => return Err(failed(LockStep::Create, source)),
                },
            };
            match LockFile::claim(&path, file).map_err(|(step, source)| failed(step, source))? {
                Claim::Locked(lock) => return Ok(Attempt::Locked { lock, created }),
                Claim::NotAFile => return Err(LockError::NotAFile { target: target() }),
                // Who holds it may do so in a directory that was moved away, for nobody else.
                Claim::Busy => return if is_current()? { Ok(Attempt::Busy) } else { Err(replaced()) },
                Claim::Elsewhere if is_current()? => {}
                Claim::Elsewhere => return Err(replaced()),
            }
        }
        Err(LockError::Unsteady { target: target(), turns: TURNS })
    }

    /// Takes the lock of an open file, and then looks whether the path leads to it: in this order, by invariant 1.
    fn claim(path: &Path, file: File) -> Result<Claim, (LockStep, io::Error)> {
        let facts = platform::facts(&file).map_err(|source| (LockStep::Compare, source))?;
        if !facts.is_file {
            return Ok(Claim::NotAFile);
        }
        if !take(&file).map_err(|source| (LockStep::Lock, source))? {
            return Ok(Claim::Busy);
        }
        let (path, holder) = (path.to_owned(), process::id());
        // Unlocks whenever it is dropped here.
        let lock = LockFile { path, file, identity: facts.identity, holder, released: false };
        match lock.is_at_its_path() {
            Ok(true) => Ok(Claim::Locked(lock)),
            Ok(false) => Ok(Claim::Elsewhere),
            Err(source) => Err((LockStep::Compare, source)),
        }
    }

    /// The lock file, by the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is still the lock that others would find. If not, another process may hold "the same" lock: the file or its directory was
    /// removed, moved or replaced. Costs one system call.
    ///
    /// Touching the file, changing its mode, copying it and linking to it make no difference.
    ///
    /// # Errors
    ///
    /// When the path cannot be looked at, which tells neither.
    pub fn is_current(&self) -> io::Result<bool> {
        Ok(self.is_mine() && self.is_at_its_path()?)
    }

    fn is_at_its_path(&self) -> io::Result<bool> {
        Ok(platform::identity_at_path(&self.path)? == Some(self.identity))
    }

    fn is_mine(&self) -> bool {
        self.holder == process::id()
    }

    /// What the file holds, read through the locked handle: on Windows no other handle may read it. At most 64 KiB of it.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn read_text(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; LONGEST_TEXT];
        let mut length = 0;
        loop {
            match platform::read_at(&self.file, &mut bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Overwrites what the file holds, in place, since it must stay the same file; then syncs it. A crash may leave any mixture of
    /// the old and the new text: keep a second copy elsewhere.
    ///
    /// # Errors
    ///
    /// What the operating system says. The file may hold such a mixture then. In a process that was forked from the holder nothing is
    /// written.
    pub fn write_text(&self, text: &str) -> io::Result<()> {
        self.check_is_mine()?;
        platform::write_all_at(&self.file, text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)?;
        self.file.sync_all()
    }

    /// Starts a child that keeps the lock while it lives, even if this process dies.
    ///
    /// On Unix the child inherits the locked file, and so do the children that it starts, unless they close it. On Windows it is put into a
    /// job that ends with this process; the creation flags of `command` are overwritten.
    ///
    /// It covers the death of this process only. An unlock in this process frees the lock for the child too, so keep the lock until
    /// you have waited for the child.
    ///
    /// # Errors
    ///
    /// Those of [`Command::spawn`] and of the hand-over. No child runs then. A process that was forked from the holder has no lock to hand
    /// over.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.check_is_mine()?;
        platform::spawn_with(&self.file, command)
    }

    fn check_is_mine(&self) -> io::Result<()> {
        if self.is_mine() {
            return Ok(());
        }
        let told = format!("{} is locked by the process from which this one was forked", self.path.display());
        Err(io::Error::other(told))
    }

    /// Lets go of the lock: at once, and for every child that has it too.
    ///
    /// # Errors
    ///
    /// When the kernel refuses. The file is closed all the same, which frees the lock unless a child has the file open.
    pub fn unlock(mut self) -> io::Result<()> {
        self.release()
    }

    fn release(&mut self) -> io::Result<()> {
        // Once: a second unlock would be a wasted call.
        if mem::replace(&mut self.released, true) || !self.is_mine() {
            return Ok(());
        }
        platform::unlock(&self.file)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // The file is closed next, and there is nobody to tell.
        drop(self.release());
    }
}

impl fmt::Debug for LockFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFile").field("path", &self.path).field("holder", &self.holder).finish_non_exhaustive()
    }
}

/// Takes the lock, without waiting. `false`: another open file has it.
fn take(file: &File) -> io::Result<bool> {
    let mut lock = fd_lock::RwLock::new(file);
    loop {
        match lock.try_write() {
            Ok(guard) => {
                // The guard would unlock at its end, in whatever process. The lock is the open file's, and stays without it.
                mem::forget(guard);
                return Ok(true);
            }
            // Some file systems in user space let a signal interrupt it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the lock that the first open file takes is refused to the second one, of the same file.
pub(crate) fn try_both(first: &File, second: &File) -> io::Result<bool> {
    if !take(first)? {
        return Err(io::Error::other("the lock of a new file is refused"));
    }
    let refused = !take(second)?;
    // Explicitly, by invariant 3, although nobody else looks at this file.
    platform::unlock(first)?;
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::key_locks::KeyLocks;

    /// One who has opened the lock file of a key, and is stopped before locking it.
    fn opened(locks: &KeyLocks, folder: &LocalDirectory) -> (PathBuf, File) {
        let name = KeyLocks::file_name(b"k");
        drop(locks.look(b"k").expect("a look").expect("nobody holds it"));
        match platform::open_existing(folder.file(), folder.path(), &name) {
            Ok(Opened::File(file)) => (folder.path().join(name), file),
            other => panic!("the file is there: {other:?}"),
        }
    }

    #[test]
    fn a_file_that_was_removed_before_it_was_locked_is_no_lock() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let directory = LocalDirectory::open(home.path()).expect("it is local");
        let locks = KeyLocks::new(&directory).expect("it can be written to");
        let folder = directory.subdirectory("execution-locks").expect("it is there");

        let (path, stale) = opened(&locks, &folder);
        assert_eq!(locks.sweep().expect("a sweep").removed, 1);
        assert!(matches!(LockFile::claim(&path, stale), Ok(Claim::Elsewhere)), "the path leads nowhere");

        let (path, stale) = opened(&locks, &folder);
        fs::remove_file(&path).expect("it is there");
        let heir = locks.look(b"k").expect("a look").expect("nobody holds the new file");
        assert!(matches!(LockFile::claim(&path, stale), Ok(Claim::Elsewhere)), "the path leads to the heir's file");
        assert!(heir.is_current().expect("a look"));

        drop(heir);
        let (path, fresh) = opened(&locks, &folder);
        assert!(matches!(LockFile::claim(&path, fresh), Ok(Claim::Locked(_))));
    }
}
