//! A directory whose locks exclude.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::directory_identity::DirectoryIdentity;
use crate::error::{OpenDirectoryError, OpenDirectoryStep};
use crate::lock_probe;
use crate::network_fs::{self, Kind};
use crate::platform;

/// The most that [`LocalDirectory::read`] reads: far more than the files it is meant for hold, and not so much that somebody's large
/// file in their place fills the memory.
const LONGEST_FILE: u64 = 1 << 20;

/// How the files begin that live for a moment only, under a name of their own.
const TEMPORARY: &str = ".flight-";

/// Such a file is needed for some milliseconds. After so long its process was killed, or stopped, which costs it a failure.
const LEFT_OVER: Duration = Duration::from_secs(3600);

/// How many names are looked at for files that were left over: the directory has a handful, unless it is used for something else too.
const LOOKED_AT: usize = 1024;

/// A directory of this host whose locks exclude, held open while this value or a clone of it lives.
///
/// Everything in it is reached through the open directory and not through its path (where the operating system can do that). A process
/// whose directory was moved or removed never touches what has taken its place; [`is_current`](LocalDirectory::is_current) tells.
///
/// ```
/// use flight_key_lock::LocalDirectory;
///
/// # let home = tempfile::tempdir()?;
/// let directory = LocalDirectory::open(home.path().join("app/locks"))?;
/// assert!(directory.is_current()?);
///
/// std::fs::remove_dir_all(home.path().join("app"))?;
/// assert!(!directory.is_current()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalDirectory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: File,
    identity: DirectoryIdentity,
}

impl LocalDirectory {
    /// Opens the directory. If it is missing, creates it and its missing parents with mode 0700, whatever the umask is.
    ///
    /// Then it makes sure that locks mean something there. A network file system is refused by its kind. On any other one a file is
    /// locked through two descriptors, and the second must be refused. That file, and what killed processes left behind of
    /// theirs, is removed.
    ///
    /// A relative path is made absolute now: a later change of the working directory changes nothing. Links on the way are
    /// followed, and must lead to the same directory for every process.
    ///
    /// It blocks for some system calls on a local disk; on a file system in user space that does not answer, for 10 s.
    ///
    /// # Errors
    ///
    /// See [`OpenDirectoryError`]. Directories that were created stay.
    pub fn open(path: impl AsRef<Path>) -> Result<LocalDirectory, OpenDirectoryError> {
        let given = path.as_ref();
        let path = std::path::absolute(given)
            .map_err(|source| OpenDirectoryError::new(OpenDirectoryStep::FindPath, given, source))?;
        let failed = |step, source| OpenDirectoryError::new(step, &path, source);
        let file = match platform::open_directory(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                platform::create_directory(&path).map_err(|source| failed(OpenDirectoryStep::Create, source))?;
                platform::open_directory(&path)
            }
            opened => opened,
        };
        let file = file.map_err(|source| failed(OpenDirectoryStep::Open, source))?;
        let directory = LocalDirectory::with(path, file)?;
        directory.examine()?;
        directory.remove_left_over();
        Ok(directory)
    }

    /// The directory of that name in this one, opened or created with mode 0700. Its file system is examined as by
    /// [`open`](LocalDirectory::open) if it is not the same one. A link is not followed.
    ///
    /// # Errors
    ///
    /// See [`OpenDirectoryError`].
    pub fn subdirectory(&self, name: &str) -> Result<LocalDirectory, OpenDirectoryError> {
        if !is_plain(name) {
            return Err(OpenDirectoryError::Name { path: self.path().to_owned(), name: name.to_owned() });
        }
        let path = self.path().join(name);
        let file = platform::open_subdirectory(self.file(), self.path(), name)
            .map_err(|source| OpenDirectoryError::new(OpenDirectoryStep::Open, &path, source))?;
        let directory = LocalDirectory::with(path, file)?;
        if directory.identity().device != self.identity().device {
            directory.examine()?;
        }
        Ok(directory)
    }

    fn with(path: PathBuf, file: File) -> Result<LocalDirectory, OpenDirectoryError> {
        let facts = platform::facts(&file)
            .map_err(|source| OpenDirectoryError::new(OpenDirectoryStep::FindFileSystem, &path, source))?;
        Ok(LocalDirectory { inner: Arc::new(Inner { path, file, identity: facts.identity }) })
    }

    /// Refuses a file system on which locks cannot be relied on.
    fn examine(&self) -> Result<(), OpenDirectoryError> {
        let found = network_fs::inspect(self.file(), self.path())
            .map_err(|source| OpenDirectoryError::new(OpenDirectoryStep::FindFileSystem, self.path(), source))?;
        // Before a lock is tried: on a network that does not answer it would hang.
        if found.kind == Kind::Network {
            return Err(OpenDirectoryError::NetworkDirectory { path: self.path().to_owned(), file_system: found.name });
        }
        lock_probe::try_locks(self, found)
    }

    /// The absolute path by which the directory was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Which directory it is, whatever path leads to it.
    #[must_use]
    pub fn identity(&self) -> DirectoryIdentity {
        self.inner.identity
    }

    /// Whether the path still leads to this directory: not when it was removed, moved or replaced. Costs one system call.
    ///
    /// # Errors
    ///
    /// When the path cannot be looked at, which tells neither.
    pub fn is_current(&self) -> io::Result<bool> {
        Ok(platform::identity_at_path(self.path())? == Some(self.identity()))
    }

    /// What the file of that name holds. `None`: there is none. A link is not followed.
    ///
    /// # Errors
    ///
    /// What the operating system says; `InvalidInput` for a name that is not one plain file name, and `FileTooLarge` for more than
    /// 1 MiB.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match platform::open_for_reading(self.file(), self.path(), plain(name)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(bytes))
    }

    /// Replaces the file of that name durably, by one with mode 0600. After a crash it holds the old bytes or the new ones; once this has
    /// returned, the new ones.
    ///
    /// # Errors
    ///
    /// What the operating system says; `InvalidInput` for a name that is not one plain file name. The file is as it was then, except
    /// when the last step fails (to sync the directory): it may hold either after a crash. A failed sync is not tried again: the
    /// kernel may have dropped the bytes, and would say now that all is well. Write something else.
    pub fn replace_durably(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (folder, path, name) = (self.file(), self.path(), plain(name)?);
        let temporary = self.temporary_name("write");
        let file = platform::create_new(folder, path, &temporary)?.ok_or(io::ErrorKind::AlreadyExists)?;
        // The bytes must be on the disk before the name leads to them: a crash would leave an empty file otherwise.
        let written = platform::write_all_at(&file, bytes, 0).and_then(|()| file.sync_all());
        // Closed before it is renamed, which Windows wants.
        drop(file);
        if let Err(error) = written.and_then(|()| platform::rename(folder, path, &temporary, name)) {
            // The first error is the one to tell.
            drop(platform::remove(folder, path, &temporary));
            return Err(error);
        }
        platform::sync_directory(folder)
    }

    /// Removes the file of that name. `false`: there was none.
    ///
    /// # Errors
    ///
    /// What the operating system says; `InvalidInput` for a name that is not one plain file name.
    pub fn remove(&self, name: &str) -> io::Result<bool> {
        match platform::remove(self.file(), self.path(), plain(name)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.inner.file
    }

    /// A name that no other process and no other call uses. Processes of two containers may have the same number, so that the
    /// time is in it too; who finds it taken all the same asks for another.
    pub(crate) fn temporary_name(&self, purpose: &str) -> String {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        format!("{TEMPORARY}{purpose}.{}-{number}-{time:x}", process::id())
    }

    /// Removes temporary files of processes that were killed while they had one. Nothing depends on it, so that no failure is told.
    fn remove_left_over(&self) {
        let mut left_over = Vec::new();
        let mut seen = 0;
        // A directory that cannot be listed keeps them.
        drop(platform::visit_names(self.file(), self.path(), |name| {
            seen += 1;
            if name.starts_with(TEMPORARY) {
                left_over.push(name.to_owned());
            }
            if seen < LOOKED_AT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }));
        for name in left_over {
            let age = self
                .path()
                .join(&name)
                .symlink_metadata()
                .and_then(|found| found.modified())
                .map(|time| time.elapsed());
            if matches!(age, Ok(Ok(age)) if age > LEFT_OVER) {
                drop(platform::remove(self.file(), self.path(), &name));
            }
        }
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for LocalDirectory {
    /// The descriptor of the directory, for calls that take names relative to it.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.file.as_fd()
    }
}

/// Whether it names a file of the directory itself, and nothing elsewhere.
pub(crate) fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!(components.next(), Some(Component::Normal(only)) if only == name) && components.next().is_none()
}

fn plain(name: &str) -> io::Result<&str> {
    if is_plain(name) {
        return Ok(name);
    }
    let told = format!("{name:?} is not one plain file name");
    Err(io::Error::new(io::ErrorKind::InvalidInput, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_directory_itself_or_is_refused() {
        for name in ["flight.lock", ".hidden", "with space", "é"] {
            assert!(is_plain(name), "{name:?}");
        }
        for name in ["", ".", "..", "/", "/etc", "a/b", "a/", "./a", "../a"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
