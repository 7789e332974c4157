//! Whether locks mean anything on a file system: found out by trying, since some grant every lock and some never answer.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::error::{OpenDirectoryError, OpenDirectoryStep};
use crate::local_directory::LocalDirectory;
use crate::lock_file;
use crate::network_fs::{FileSystem, Kind};
use crate::platform::{self, Opened};

/// How long a lock request of a file system in user space may take. It takes microseconds where it works, and a loaded machine
/// makes it some milliseconds; a request that hangs does so for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// How often the probe file may vanish before it is locked: only a cleaner of old files with a wrong clock takes it away at all.
const TURNS: u32 = 3;

/// Locks a new file of the directory through two descriptors: the second one must be refused.
pub(crate) fn try_locks(directory: &LocalDirectory, file_system: FileSystem) -> Result<(), OpenDirectoryError> {
    let (path, name) = (directory.path().to_owned(), file_system.name);
    let excludes = if file_system.kind == Kind::UserSpace {
        let directory = directory.clone();
        match within(LIMIT, move || second_is_refused(&directory)) {
            Some(outcome) => outcome?,
            None => return Err(OpenDirectoryError::LocksHang { path, file_system: name, waited: LIMIT }),
        }
    } else {
        second_is_refused(directory)?
    };
    if excludes { Ok(()) } else { Err(OpenDirectoryError::LocksDoNotExclude { path, file_system: name }) }
}

/// Does it in a thread of its own, which stays in the kernel for ever if the file system does not answer: such a call cannot be withdrawn.
/// `None`: not done within the limit.
fn within<T: Send + 'static>(limit: Duration, act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        // Nobody waits for it after the limit.
        drop(sender.send(act()));
    });
    receiver.recv_timeout(limit).ok()
}

fn second_is_refused(directory: &LocalDirectory) -> Result<bool, OpenDirectoryError> {
    let (folder, path) = (directory.file(), directory.path());
    let failed = |step, source| OpenDirectoryError::new(step, path, source);
    for _ in 0..TURNS {
        // A name of one's own: processes that start together must not find each other's locks.
        let name = directory.temporary_name("probe");
        let made = platform::create_new(folder, path, &name);
        let Some(first) = made.map_err(|source| failed(OpenDirectoryStep::MakeProbe, source))? else { continue };
        let second = platform::open_existing(folder, path, &name);
        let tried = match second {
            Ok(Opened::File(second)) => lock_file::try_both(&first, &second).map(Some),
            Ok(Opened::Missing | Opened::Busy) => Ok(None),
            Err(error) => Err(error),
        };
        // A failure leaves an empty file that a later `open` removes.
        drop(platform::remove(folder, path, &name));
        if let Some(refused) = tried.map_err(|source| failed(OpenDirectoryStep::LockProbe, source))? {
            return Ok(refused);
        }
    }
    let source = std::io::Error::other("the file was removed before it could be locked, each time");
    Err(failed(OpenDirectoryStep::LockProbe, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_given_up() {
        let (answer, never) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(20), move || never.recv()), None);
        drop(answer);
        assert_eq!(within(LIMIT, || 7), Some(7));
    }
}
