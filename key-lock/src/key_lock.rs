use crate::lock_file::LockFile;
use std::io;
use std::process::{Child, Command};

/// The lock of one key. Dropping it lets go of the key.
#[must_use = "the key is let go of when the lock is dropped"]
#[derive(Debug)]
pub struct KeyLock {
    file: LockFile,
}

impl KeyLock {
    pub(crate) fn new(file: LockFile) -> Self {
        KeyLock { file }
    }

    /// Whether this is still the lock that others would find. See [`LockFile::is_current`].
    ///
    /// # Errors
    /// When the paths cannot be looked at, which tells neither.
    pub fn is_current(&self) -> io::Result<bool> {
        self.file.is_current()
    }

    /// Starts a child process that keeps the key while it lives, even if this process dies. See [`LockFile::spawn`].
    ///
    /// # Errors
    /// Those of [`Command::spawn`], and of the hand-over. No child runs then.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.file.spawn(command)
    }

    /// Lets go of the key, at once and for every child that has it too. See [`LockFile::unlock`].
    ///
    /// # Errors
    /// When the kernel refuses. The file is closed all the same.
    pub fn unlock(self) -> io::Result<()> {
        self.file.unlock()
    }

    pub(crate) fn remove_file(&self) -> io::Result<()> {
        self.file.remove()
    }
}
