//! The directory's path leads to another directory: somebody removed or moved the one that we had.
//!
//! Two find it: the supervisor, when it connects or looks after its term, and a call, when it tries its key's lock. Whoever is first makes
//! the change, once for each directory.

use super::effects::{Effect, Effects};
use super::state::State;
use crate::client;
use crate::coordinator::Time;
use flight_key_lock::{KeyLocks, LocalDirectory, LockError};

impl State {
    /// Goes on with the key locks of `directory`. Those that are held are in a directory that nobody finds any more.
    pub(super) fn go_on_in(
        &mut self,
        now: Time,
        directory: LocalDirectory,
        effects: &mut Effects,
    ) -> Result<(), LockError> {
        if self.directory.identity() == directory.identity() {
            return Ok(());
        }
        self.key_locks = KeyLocks::new(&directory)?;
        tracing::warn!(directory = %directory.path().display(), "the directory was replaced: going on with the one that is there now");
        effects.list.push(Effect::Moved(directory.identity()));
        self.directory = directory;
        self.client.handle(now, client::Event::DirectoryReplaced);
        Ok(())
    }

    /// Opens what is at the path now, or makes it again.
    pub(super) fn follow_path(&mut self, now: Time, effects: &mut Effects) -> Result<(), LockError> {
        let directory =
            LocalDirectory::open(self.directory.path()).map_err(|error| LockError::Folder(Box::new(error)))?;
        self.go_on_in(now, directory, effects)
    }
}
