//! The lock of one key, while it is held.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Child, Command};

use crate::error::{LockError, LockStep, LockTarget};
use crate::key_text::KeyText;
use crate::lock_file::LockFile;

/// The lock of one key, until this value is dropped or the process ends. [`KeyLocks`](crate::KeyLocks) gives it out.
///
/// It may be moved to another thread, shared between threads, and dropped on any. Dropping it lets go of the key, as
/// [`unlock`](KeyLock::unlock) does, and says nothing of a failure. What a fork does to it is told at [`LockFile`].
#[must_use = "the key is let go of when the lock is dropped"]
#[doc(alias = "guard")]
pub struct KeyLock {
    file: LockFile,
    key: KeyText,
}

impl KeyLock {
    pub(crate) fn new(file: LockFile, key: &[u8]) -> KeyLock {
        KeyLock { file, key: KeyText::of(key) }
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whether this is still the lock that others would find. See [`LockFile::is_current`]: if not, another process may hold the
    /// same key. Look at it now and then during a long work, and before its result is made public.
    ///
    /// # Errors
    ///
    /// When the path cannot be looked at, which tells neither.
    pub fn is_current(&self) -> io::Result<bool> {
        self.file.is_current()
    }

    /// Starts a child that keeps the key while it lives, even if this process dies. See [`LockFile::spawn`].
    ///
    /// # Errors
    ///
    /// Those of [`Command::spawn`] and of the hand-over. No child runs then.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.file.spawn(command)
    }

    /// Lets go of the key: at once, and for every child that has it too.
    ///
    /// # Errors
    ///
    /// When the kernel refuses. The file is closed all the same, which frees the key unless a child has the file open.
    pub fn unlock(self) -> Result<(), LockError> {
        let path = self.path().to_owned();
        self.file.unlock().map_err(|source| {
            let target = LockTarget::new(path, Some(self.key.to_string().into()));
            LockError::new(LockStep::Unlock, target, None, source)
        })
    }
}

impl fmt::Debug for KeyLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is escaped already.
        f.debug_struct("KeyLock").field("key", &format_args!("\"{}\"", self.key)).field("path", &self.path()).finish()
    }
}
