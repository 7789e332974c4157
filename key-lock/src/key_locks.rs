//! One lock for each key.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::backoff::Backoff;
use crate::error::{LockError, OpenDirectoryError};
use crate::key_lock::KeyLock;
use crate::key_text::KeyText;
use crate::local_directory::LocalDirectory;
use crate::lock_file::{Attempt, IfMissing, LockFile};
use crate::sweep::{self, Growth, Sweep};

/// The folder of the lock files. Part of the frozen format.
const FOLDER: &str = "execution-locks";

/// Others look at a lock by taking it, and let go some microseconds later. One that is busy all this time is held, unless a looker was stopped.
const LOOKED_AT: Duration = Duration::from_millis(2);

/// So often it is looked at in this time. Counted, because a busy machine may let the time pass between two looks, and it happens often
/// enough that both meet somebody else's.
const LOOKS: u32 = 8;

/// How often in a row the folder may be found removed. Each time it is made again.
const FOLDERS: u32 = 10;

/// Kernel locks by key: whoever holds a key's lock is alone with it among all threads and processes that name the same directory.
///
/// Any bytes are a key. Equal bytes are the same key, and nothing is normalised: `é` of one and of two code points are two keys.
///
/// | | waits | for |
/// |---|---|---|
/// | [`look`](KeyLocks::look) | not at all; one look, which the look of another disturbs | those who look again anyway |
/// | [`try_acquire`](KeyLocks::try_acquire) | 2 ms, so that the looks of others do not disturb | both |
/// | [`acquire`](KeyLocks::acquire) | on a timer of tokio | async code |
/// | [`acquire_blocking`](KeyLocks::acquire_blocking) | by sleeping | threads |
///
/// Clones share what they know of the folder, and are cheap. All methods may be called from several threads at once.
///
/// # The files
///
/// Each key has a file in `execution-locks`, made when it is first locked. Files of idle keys are removed: by [`sweep`](KeyLocks::sweep), and a few
/// at a time when some thousands were made through one `KeyLocks`, or (now and then) when one is made. If somebody removes the folder,
/// it is made again.
#[derive(Clone, Debug)]
pub struct KeyLocks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: LocalDirectory,
    /// Another one after somebody removed it.
    folder: Mutex<LocalDirectory>,
    growth: Growth,
}

impl KeyLocks {
    /// The key locks of the directory.
    ///
    /// # Errors
    ///
    /// When the folder of the locks cannot be opened or created.
    pub fn new(directory: &LocalDirectory) -> Result<KeyLocks, LockError> {
        let folder = open_folder(directory)?;
        let growth = Growth::default();
        growth.begun(&folder);
        Ok(KeyLocks { shared: Arc::new(Shared { directory: directory.clone(), folder: Mutex::new(folder), growth }) })
    }

    /// The name of a key's lock file: SHA-256 of the key's bytes in 64 lower-case hexadecimal digits. Frozen: all versions must agree.
    ///
    /// ```
    /// use flight_key_lock::KeyLocks;
    ///
    /// let name = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    /// assert_eq!(KeyLocks::file_name(b"abc"), name);
    /// ```
    #[must_use]
    pub fn file_name(key: &[u8]) -> String {
        let mut name = String::with_capacity(64);
        for byte in Sha256::digest(key) {
            write!(name, "{byte:02x}").expect("a String takes all that is written to it");
        }
        name
    }

    /// Tries the key's lock exactly once. `None`: another holds it, or looks at it, at this moment.
    ///
    /// # Errors
    ///
    /// See [`LockError`]. Nothing is held then.
    pub fn look(&self, key: &[u8]) -> Result<Option<KeyLock>, LockError> {
        self.look_at(&KeyLocks::file_name(key), key)
    }

    fn look_at(&self, name: &str, key: &[u8]) -> Result<Option<KeyLock>, LockError> {
        match self.attempt(name, key, IfMissing::Create)? {
            Attempt::Locked { lock, created } => {
                if created {
                    self.shared.growth.created(&self.folder());
                }
                Ok(Some(KeyLock::new(lock, key)))
            }
            Attempt::Busy | Attempt::Missing => Ok(None),
        }
    }

    /// Takes the key's lock if nobody holds it. `None`: somebody does.
    ///
    /// Others look at a lock by taking it for a moment, so that a busy lock is looked at eight times in 2 ms before it counts as held. It
    /// blocks the thread for so long.
    ///
    /// # Errors
    ///
    /// See [`LockError`]. Nothing is held then.
    pub fn try_acquire(&self, key: &[u8]) -> Result<Option<KeyLock>, LockError> {
        let name = KeyLocks::file_name(key);
        look_past_others(|| self.look_at(&name, key))
    }

    /// Waits for the key's lock, as long as it takes.
    ///
    /// It looks again and again, after pauses from 0.1 ms to 10 ms, each a little different from everybody else's. There is no order among those
    /// who wait. To block in the kernel until the lock is free would be quicker by some milliseconds, but such a wait cannot be withdrawn.
    ///
    /// # Cancellation
    ///
    /// Dropping the future withdraws. It holds nothing while it waits, and nothing of it lives on: it cannot take the lock later.
    ///
    /// # Errors
    ///
    /// See [`LockError`]. Nothing is held then.
    ///
    /// # Panics
    ///
    /// When it has to wait outside a tokio runtime with its timer.
    pub async fn acquire(&self, key: &[u8]) -> Result<KeyLock, LockError> {
        let name = KeyLocks::file_name(key);
        let mut backoff = Backoff::new();
        loop {
            if let Some(lock) = self.look_at(&name, key)? {
                return Ok(lock);
            }
            // The only point at which the future can be dropped, and nothing is held here.
            tokio::time::sleep(backoff.draw()).await;
        }
    }

    /// Waits for the key's lock by blocking the thread. `None`: the time ran out. Without a limit it waits as long as it takes. It looks once
    /// at least, and a last time when the limit is reached.
    ///
    /// It must not be called on a thread that runs async tasks.
    ///
    /// # Errors
    ///
    /// See [`LockError`]. Nothing is held then.
    pub fn acquire_blocking(&self, key: &[u8], timeout: Option<Duration>) -> Result<Option<KeyLock>, LockError> {
        let name = KeyLocks::file_name(key);
        let begun = Instant::now();
        let mut backoff = Backoff::new();
        loop {
            // Read before the look, so that there is one after the limit is reached.
            let left = timeout.map_or(Duration::MAX, |timeout| timeout.saturating_sub(begun.elapsed()));
            if let Some(lock) = self.look_at(&name, key)? {
                return Ok(Some(lock));
            }
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(backoff.draw().min(left));
        }
    }

    /// Whether somebody holds the key's lock, this process included. Like [`try_acquire`](KeyLocks::try_acquire) it may block for 2 ms.
    ///
    /// It looks by taking the lock for a moment, so that `false` is an old answer when it is given: do not act on it as if you had
    /// the lock. It makes no file.
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    pub fn try_is_held(&self, key: &[u8]) -> Result<bool, LockError> {
        let name = KeyLocks::file_name(key);
        let free = look_past_others(|| match self.attempt(&name, key, IfMissing::Leave)? {
            Attempt::Locked { .. } | Attempt::Missing => Ok(Some(())),
            Attempt::Busy => Ok(None),
        })?;
        Ok(free.is_none())
    }

    /// Removes the lock files of all keys that nobody holds, and blocks while it does: some ten microseconds for each file.
    ///
    /// Anybody may do so at any time. Each file is locked, compared with its path, removed while it is locked, and unlocked. Who has opened it
    /// meanwhile finds that it is not the file at the path, and begins again.
    ///
    /// # Errors
    ///
    /// When the folder cannot be listed, or a file cannot be locked or removed. What was removed until then is removed.
    pub fn sweep(&self) -> Result<Sweep, LockError> {
        sweep::sweep(&self.folder(), usize::MAX)
    }

    /// One look, in the folder that is at its path by now.
    fn attempt(&self, name: &str, key: &[u8], if_missing: IfMissing) -> Result<Attempt, LockError> {
        let shown = || Some(KeyText::of(key).to_string().into());
        let mut folder = self.folder();
        for _ in 1..FOLDERS {
            match LockFile::attempt(&folder, name, if_missing, &shown) {
                Err(LockError::DirectoryReplaced { .. }) => folder = self.reopen()?,
                done => return done,
            }
        }
        LockFile::attempt(&folder, name, if_missing, &shown)
    }

    fn folder(&self) -> LocalDirectory {
        self.shared.folder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the folder anew, or makes it again.
    fn reopen(&self) -> Result<LocalDirectory, LockError> {
        let directory = &self.shared.directory;
        // A folder in a directory that was itself moved away would be found by nobody.
        if directory.is_current().is_ok_and(|is_current| !is_current) {
            return Err(LockError::DirectoryReplaced { directory: directory.path().to_owned() });
        }
        let folder = open_folder(directory)?;
        *self.shared.folder.lock().unwrap_or_else(PoisonError::into_inner) = folder.clone();
        Ok(folder)
    }
}

/// Looks as long as it may be others' looks that make the lock busy.
fn look_past_others<T>(mut look: impl FnMut() -> Result<Option<T>, LockError>) -> Result<Option<T>, LockError> {
    for _ in 1..LOOKS {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        thread::sleep(LOOKED_AT / (LOOKS - 1));
    }
    look()
}

fn open_folder(directory: &LocalDirectory) -> Result<LocalDirectory, LockError> {
    directory.subdirectory(FOLDER).map_err(|error: OpenDirectoryError| LockError::Folder(Box::new(error)))
}
