use crate::directory_identity::DirectoryIdentity;
use crate::error::OpenDirectoryError;
use crate::lock_file;
use crate::network_fs;
use crate::platform;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of this host whose locks exclude, open as long as this value or a clone of it lives.
///
/// Everything in it is reached through the open directory, not through its path. So a process whose directory was moved or removed
/// never touches what has taken its place; [`is_current`](LocalDirectory::is_current) tells.
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
    /// Opens the directory, or creates it with mode 0700, and its missing parents with it.
    ///
    /// Then it makes sure that locks mean something there: a network file system is refused by its kind, any other one whose locks do not
    /// exclude by trying, with a probe file of its own that it removes. A relative path is made absolute now, so that a later
    /// change of the working directory changes nothing. It blocks for some system calls on a local disk.
    ///
    /// # Errors
    /// See [`OpenDirectoryError`]. A directory that was created stays.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenDirectoryError> {
        let path = path.as_ref();
        let failed = |action, source| failed(action, path, source);
        let path = &std::path::absolute(path).map_err(|source| failed("find", source))?;
        let file = match platform::open_directory(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                platform::create_directory(path).map_err(|source| failed("create", source))?;
                platform::open_directory(path)
            }
            opened => opened,
        };
        let file = file.map_err(|source| failed("open", source))?;
        let found = network_fs::inspect(&file, path).map_err(|source| failed("find the file system of", source))?;
        if found.network {
            return Err(OpenDirectoryError::NetworkDirectory { path: path.clone(), file_system: found.name });
        }
        let identity = platform::identity_of(&file).map_err(|source| failed("look at", source))?;
        let directory = LocalDirectory { inner: Arc::new(Inner { path: path.clone(), file, identity }) };
        directory.probe_locks(found.name)?;
        Ok(directory)
    }

    /// The directory of that name in this one, opened or created with mode 0700.
    ///
    /// # Errors
    /// See [`OpenDirectoryError`]. The file system is this one's, so it is not examined again.
    pub fn subdirectory(&self, name: &str) -> Result<LocalDirectory, OpenDirectoryError> {
        let path = self.inner.path.join(name);
        let failed = |action, source| failed(action, &path, source);
        platform::create_subdirectory(self.file(), self.path(), name).map_err(|source| failed("create", source))?;
        let file = platform::open_directory(&path).map_err(|source| failed("open", source))?;
        let identity = platform::identity_of(&file).map_err(|source| failed("look at", source))?;
        Ok(LocalDirectory { inner: Arc::new(Inner { path: path.clone(), file, identity }) })
    }

    /// The absolute path by which the directory was opened.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Which directory it is, whatever path leads to it.
    pub fn identity(&self) -> DirectoryIdentity {
        self.inner.identity
    }

    /// Whether the path still leads to this directory. Not, when it was removed, moved or replaced.
    ///
    /// # Errors
    /// When the path cannot be looked at, which tells neither.
    pub fn is_current(&self) -> io::Result<bool> {
        Ok(platform::identity_at_path(self.path())? == Some(self.inner.identity))
    }

    /// What the file of that name holds. `None`: there is none.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut file = match platform::open_for_reading(self.file(), self.path(), name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Replaces the file of that name, durably: after a crash it holds the old bytes or the new ones, and once this has returned, the
    /// new ones.
    ///
    /// A new file beside it is written and synced, then renamed over it, then the directory is synced. A sync that fails is not repeated:
    /// the kernel may have dropped the bytes, and would say that all is well.
    ///
    /// # Errors
    /// What the operating system says. The old file is as it was, and the new one removed; only when the last sync fails may either
    /// of them be there.
    pub fn replace_durably(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = unique(name);
        let mut file = platform::create_new(self.file(), self.path(), &temporary)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        drop(file);
        let renamed = written.and_then(|()| platform::rename(self.file(), self.path(), &temporary, name));
        if let Err(error) = renamed {
            // The first error is the one to tell.
            drop(platform::remove(self.file(), self.path(), &temporary));
            return Err(error);
        }
        platform::sync_directory(self.file())
    }

    /// Removes the file of that name. `false`: there was none.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn remove(&self, name: &str) -> io::Result<bool> {
        match platform::remove(self.file(), self.path(), name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.inner.file
    }

    /// Locks a file of its own through two descriptors: the second must be refused.
    fn probe_locks(&self, file_system: String) -> Result<(), OpenDirectoryError> {
        let name = unique(".probe");
        let failed = |action, source| failed(action, self.path(), source);
        let create = |source| failed("make a probe file for locks in", source);
        let first = platform::create_new(self.file(), self.path(), &name).map_err(create)?;
        let second = platform::open_existing(self.file(), self.path(), &name);
        // Removed before it is locked: nothing stays behind if this process is killed now.
        let removed = platform::remove(self.file(), self.path(), &name);
        let (second, ()) = (second.map_err(create)?, removed.map_err(create)?);
        let path = self.path().to_owned();
        match lock_file::probe(&first, &second) {
            Ok(true) => Ok(()),
            Ok(false) => Err(OpenDirectoryError::LocksDoNotExclude { path, file_system }),
            Err(source) => Err(OpenDirectoryError::LocksUnsupported { path, file_system, source }),
        }
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for LocalDirectory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.file.as_fd()
    }
}

/// A name that no other process and no other call uses: processes of two containers may have the same number, so the time is in it too.
fn unique(name: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{name}.{}-{time:x}-{number}", std::process::id())
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> OpenDirectoryError {
    let denied = source.kind() == io::ErrorKind::PermissionDenied;
    let owner = denied.then(|| nearest_owner(path)).flatten();
    OpenDirectoryError::Io { action, path: path.to_owned(), source, owner }
}

/// The owner of the path, or of the nearest directory above it that can be seen.
fn nearest_owner(path: &Path) -> Option<String> {
    path.ancestors().find_map(platform::describe_owner)
}
