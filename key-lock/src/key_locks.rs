use crate::backoff::Backoff;
use crate::error::{LockError, LockStep, OpenDirectoryError};
use crate::key_lock::KeyLock;
use crate::local_directory::LocalDirectory;
use crate::lock_file::LockFile;
use crate::platform;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The folder of the lock files. Part of the frozen format.
const FOLDER: &str = "execution-locks";

/// Others look at a lock by taking it. They have let go of it after so long, unless they were stopped.
const LOOK: Duration = Duration::from_millis(2);

/// After so many acquisitions, the folder may have grown by as many files: it is swept.
const SWEEP_AFTER: usize = 4096;

/// So many files are looked at by a sweep that starts by itself: it must not hold up the acquisition that starts it.
const SLICE: usize = 512;

/// Kernel locks by key: whoever holds a key's lock is alone with it among all processes of the host that name the same directory.
///
/// Each key has a file in `execution-locks`, named by the SHA-256 of the key's bytes. Files of keys that are not held are removed now and
/// then, so the folder stays small. Clones share the folder.
#[derive(Clone, Debug)]
pub struct KeyLocks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parent: LocalDirectory,
    /// Opened anew when somebody removed it.
    folder: Mutex<LocalDirectory>,
    acquired: AtomicUsize,
    swept_to: AtomicUsize,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Lock files looked at.
    pub seen: usize,
    /// Files of idle keys removed.
    pub removed: usize,
}

impl KeyLocks {
    /// The key locks of the directory.
    ///
    /// # Errors
    /// When the folder of the locks cannot be opened or created.
    pub fn new(directory: &LocalDirectory) -> Result<KeyLocks, LockError> {
        let folder = open_folder(directory)?;
        let shared = Shared {
            parent: directory.clone(),
            folder: Mutex::new(folder),
            acquired: AtomicUsize::new(0),
            swept_to: AtomicUsize::new(0),
        };
        Ok(KeyLocks { shared: Arc::new(shared) })
    }

    /// The name of a key's lock file: 64 lower-case hexadecimal digits. Frozen: every version and language must agree.
    pub fn file_name(key: &[u8]) -> String {
        let mut name = String::with_capacity(64);
        for byte in Sha256::digest(key) {
            // Writing to a String cannot fail.
            let _infallible = write!(name, "{byte:02x}");
        }
        name
    }

    /// Tries the key's lock exactly once. `None`: another holds it, or looks at it, at this moment.
    ///
    /// # Errors
    /// See [`LockError`]. Nothing is held then.
    pub fn look(&self, key: &[u8]) -> Result<Option<KeyLock>, LockError> {
        let name = KeyLocks::file_name(key);
        let taken = match LockFile::try_lock(&self.folder(), &name) {
            // The folder was removed under us, and a file cannot be made in it.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => LockFile::try_lock(&self.reopen()?, &name)?,
            taken => taken?,
        };
        let Some(file) = taken else { return Ok(None) };
        if self.shared.acquired.fetch_add(1, Ordering::Relaxed) % SWEEP_AFTER == SWEEP_AFTER - 1
            && let Err(error) = self.sweep_slice(SLICE)
        {
            tracing::warn!(%error, "could not remove the lock files of idle keys");
        }
        Ok(Some(KeyLock::new(file)))
    }

    /// Takes the key's lock if nobody holds it. `None`: somebody does.
    ///
    /// Others look at a lock by taking it for a moment, so a busy lock is tried again for 2 ms before it counts as held. It may
    /// block the thread for so long.
    ///
    /// # Errors
    /// See [`LockError`]. Nothing is held then.
    pub fn try_acquire(&self, key: &[u8]) -> Result<Option<KeyLock>, LockError> {
        self.acquire_blocking(key, Some(LOOK))
    }

    /// Waits for the key's lock.
    ///
    /// It looks again and again, after pauses from 0.1 ms to 10 ms that differ between those who wait. There is no order among them.
    ///
    /// # Cancellation
    /// Dropping the future withdraws. No thread is left behind that could take the lock later.
    ///
    /// # Errors
    /// See [`LockError`]. Nothing is held then.
    ///
    /// # Panics
    /// Outside a tokio runtime with its timer.
    pub async fn acquire(&self, key: &[u8]) -> Result<KeyLock, LockError> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(lock) = self.look(key)? {
                return Ok(lock);
            }
            tokio::time::sleep(backoff.draw()).await;
        }
    }

    /// Waits for the key's lock, blocking the thread. `None`: the time ran out. Without a limit it waits as long as it takes.
    ///
    /// # Errors
    /// See [`LockError`]. Nothing is held then.
    pub fn acquire_blocking(&self, key: &[u8], timeout: Option<Duration>) -> Result<Option<KeyLock>, LockError> {
        let started = Instant::now();
        let mut backoff = Backoff::new();
        loop {
            // Read before the look, so that there is one after the limit is reached.
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            if let Some(lock) = self.look(key)? {
                return Ok(Some(lock));
            }
            let pause = backoff.draw();
            match left {
                Some(Duration::ZERO) => return Ok(None),
                Some(left) => std::thread::sleep(pause.min(left)),
                None => std::thread::sleep(pause),
            }
        }
    }

    /// Whether somebody holds the key's lock, this process included.
    ///
    /// It looks by taking the lock for a moment, so an answer of `false` is old when it is given.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn try_is_held(&self, key: &[u8]) -> Result<bool, LockError> {
        Ok(self.try_acquire(key)?.is_none())
    }

    /// Removes the lock files of all keys that nobody holds.
    ///
    /// Each is locked, compared with its path, removed while it is locked, and unlocked. Whoever has opened it meanwhile finds that it
    /// is not the file at the path, and begins again.
    ///
    /// # Errors
    /// When the folder cannot be listed, or a file cannot be locked or removed. What was removed until then is removed.
    pub fn sweep(&self) -> Result<Sweep, LockError> {
        self.sweep_slice(usize::MAX)
    }

    fn sweep_slice(&self, most: usize) -> Result<Sweep, LockError> {
        let folder = self.folder();
        let listed = platform::names(folder.file(), folder.path());
        let mut names = listed.map_err(|source| LockError::new(LockStep::List, folder.path(), source))?;
        // Only what we made: a stranger's file is a stranger's.
        names.retain(|name| is_lock_file(name));
        // A slice goes on where the last one ended.
        let start =
            if names.len() > most { self.shared.swept_to.fetch_add(most, Ordering::Relaxed) % names.len() } else { 0 };
        let mut sweep = Sweep::default();
        for name in names.iter().cycle().skip(start).take(most.min(names.len())) {
            sweep.seen += 1;
            if let Some(file) = LockFile::try_lock(&folder, name)? {
                let lock = KeyLock::new(file);
                lock.remove_file()
                    .map_err(|source| LockError::new(LockStep::Remove, folder.path().join(name), source))?;
                sweep.removed += 1;
            }
        }
        Ok(sweep)
    }

    fn folder(&self) -> LocalDirectory {
        self.shared.folder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the folder anew, after it was removed.
    fn reopen(&self) -> Result<LocalDirectory, LockError> {
        let folder = open_folder(&self.shared.parent)?;
        *self.shared.folder.lock().unwrap_or_else(PoisonError::into_inner) = folder.clone();
        Ok(folder)
    }
}

fn is_lock_file(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn open_folder(directory: &LocalDirectory) -> Result<LocalDirectory, LockError> {
    let path: PathBuf = directory.path().join(FOLDER);
    directory.subdirectory(FOLDER).map_err(|error| match error {
        OpenDirectoryError::Io { source, .. } => LockError::new(LockStep::OpenFolder, path, source),
        other => LockError::new(LockStep::OpenFolder, path, io::Error::other(other)),
    })
}
