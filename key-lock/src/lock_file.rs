//! The kernel lock on a file, and the order of steps that makes it mean something.
//!
//! # Invariants
//! 1. A lock that is given out is on the file that its path leads to: the identities are compared after the lock was taken. Without it
//!    two could hold "the" lock when somebody removes the file in between.
//! 2. No call waits in the kernel. A thread that does cannot be cancelled, and takes the lock later for nobody.
//! 3. The lock is freed by an explicit unlock, before the file is closed. Closing alone leaves it with any child that is between fork and
//!    exec, so that the next look finds a lock that nobody holds.
//! 4. Only the process that took the lock unlocks it. A forked child shares the parent's lock, and would free it.

use crate::error::{LockError, LockStep};
use crate::local_directory::LocalDirectory;
use crate::platform;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::process::{Child, Command};

/// How often the file may be replaced between opening and locking before it is reported: a sweep does it once, a broken tool for ever.
const TURNS: u32 = 1000;

/// An exclusively locked file. The lock ends with the value, or with the process.
#[must_use = "the lock is let go of when the value is dropped"]
#[derive(Debug)]
pub struct LockFile {
    directory: LocalDirectory,
    name: String,
    file: File,
    owner: u32,
}

impl LockFile {
    /// Takes the lock of the file of that name, or creates the file. `None`: another holds it at this moment. It never waits.
    ///
    /// # Errors
    /// When the file cannot be opened, locked or compared. Nothing is held then.
    pub fn try_lock(directory: &LocalDirectory, name: &str) -> Result<Option<LockFile>, LockError> {
        let failed = |step, source| LockError::new(step, directory.path().join(name), source);
        for _ in 0..TURNS {
            let file = platform::open_lock_file(directory.file(), directory.path(), name)
                .map_err(|source| failed(LockStep::Open, source))?;
            if !take(&file).map_err(|source| failed(LockStep::Lock, source))? {
                return Ok(None);
            }
            let (directory, name) = (directory.clone(), name.to_owned());
            let lock = LockFile { directory, name, file, owner: std::process::id() };
            if lock.is_at_its_name().map_err(|source| failed(LockStep::Compare, source))? {
                return Ok(Some(lock));
            }
            // Dropping it unlocks a file that nobody finds any more.
        }
        let source = io::Error::other(format!("it was replaced {TURNS} times while it was being locked"));
        Err(failed(LockStep::Compare, source))
    }

    /// Whether the locked file is still the one that the path leads to. Otherwise another process may hold "the same" lock.
    ///
    /// Both the file in the directory and the directory at its path are compared. Touching the file, changing its mode, copying
    /// and linking it make no difference.
    ///
    /// # Errors
    /// When the paths cannot be looked at, which tells neither.
    pub fn is_current(&self) -> io::Result<bool> {
        Ok(self.is_at_its_name()? && self.directory.is_current()?)
    }

    fn is_at_its_name(&self) -> io::Result<bool> {
        let held = platform::identity_of(&self.file)?;
        let found = platform::identity_at(self.directory.file(), self.directory.path(), &self.name)?;
        Ok(found == Some(held))
    }

    /// What the file holds, through the locked handle: on Windows no other handle may read it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_text(&mut self) -> io::Result<Vec<u8>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Overwrites what the file holds, in place, and syncs it. A crash may leave a part of the new text.
    ///
    /// # Errors
    /// What the operating system says. The file may hold a part of the new text then.
    pub fn write_text(&mut self, text: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        file.sync_all()
    }

    /// Starts a child process that keeps the lock while it lives, even if this process dies.
    ///
    /// On Unix the child inherits the locked descriptor. On Windows it is put into a job that ends with this process. An unlock in this process frees
    /// the lock for the child too, so keep it until you have waited for the child.
    ///
    /// # Errors
    /// Those of [`Command::spawn`], and of the hand-over. No child runs then.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        platform::spawn_with(&self.file, command)
    }

    /// Lets go of the lock, at once and for every process that inherited it.
    ///
    /// Dropping does the same and hides the error. In a process that was forked from the holder both only close the file.
    ///
    /// # Errors
    /// When the kernel refuses. The file is closed all the same, which frees the lock unless a child has it.
    pub fn unlock(self) -> io::Result<()> {
        let unlocked = self.release();
        // `drop` would do it again.
        let mut this = self;
        this.owner = 0;
        unlocked
    }

    fn release(&self) -> io::Result<()> {
        if self.owner == std::process::id() { platform::unlock(&self.file) } else { Ok(()) }
    }

    /// Removes the file while it is locked, so that nobody else can be holding it: whoever opened it finds another identity.
    pub(crate) fn remove(&self) -> io::Result<()> {
        platform::remove(self.directory.file(), self.directory.path(), &self.name)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Closing follows, so there is nothing to do about an error.
        drop(self.release());
    }
}

/// Takes the lock, without waiting. `false`: another holds it.
fn take(file: &File) -> io::Result<bool> {
    let mut lock = fd_lock::RwLock::new(file);
    loop {
        match lock.try_write() {
            Ok(guard) => {
                // The guard would unlock at its end. The lock belongs to the open file, so it stays without it.
                std::mem::forget(guard);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Whether a lock that one descriptor holds is refused to another one of the same file.
pub(crate) fn probe(first: &File, second: &File) -> io::Result<bool> {
    if !take(first)? {
        return Err(io::Error::other("the lock of a new file is held"));
    }
    Ok(!take(second)?)
}
