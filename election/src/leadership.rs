//! The term of a process that won.

use std::io;
use std::process;

use flight_fencing::{Epoch, EpochsSpent};
use flight_key_lock::{LocalDirectory, LockFile};

use crate::copies::{self, LOCK_FILE};
use crate::error::{CampaignError, ResignError};

/// This process leads, until this value is dropped or the process ends.
///
/// It is the kernel lock on `flight.lock`, and the epoch that was made durable under it. [`Election`](crate::Election) gives it out.
///
/// A process that is stopped or slow still leads: the kernel frees the lock when the process has ended, and not before. So
/// there is nothing to renew, and no time after which a leadership is suddenly over.
///
/// # Drop
///
/// Dropping it resigns, as [`resign`](Leadership::resign) does, and says nothing of a failure. In a process that was forked from the
/// winner it does nothing: the term is the parent's.
#[must_use = "a dropped leadership is resigned at once"]
#[doc(alias = "term")]
#[doc(alias = "mastership")]
#[derive(Debug)]
pub struct Leadership {
    directory: LocalDirectory,
    lock: LockFile,
    epoch: Epoch,
    /// The highest epoch that was ever given to the disk in this term. Above `epoch` after a raise that failed: the number must not be
    /// written again (see [`copies::write`]).
    written: Epoch,
    /// The process that won.
    winner: u32,
}

impl Leadership {
    /// Both copies of `epoch` are durable, and `lock` is held.
    pub(crate) fn new(directory: LocalDirectory, lock: LockFile, epoch: Epoch) -> Leadership {
        Leadership { directory, lock, epoch, written: epoch, winner: process::id() }
    }

    /// The epoch of this term: greater than the epoch of every term before it in this directory.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The directory of the election.
    #[must_use]
    pub fn directory(&self) -> &LocalDirectory {
        &self.directory
    }

    /// Whether this process still leads alone.
    ///
    /// It is `false` once another process can have won: when `flight.lock` is not the file any more that this process locked, or the
    /// path of the directory does not lead to it any more. The product never does that; a person or a cleaner of old files might.
    /// Touching, chmod, hard links and backup copies are no difference. It is also `false` in a process that was forked
    /// from the winner.
    ///
    /// Ask before each deed that needs you to be alone, and about once a second. It costs a few system calls. Between the answer and
    /// the deed the file can still be replaced: what must never come from an old leader should carry the
    /// [epoch](Leadership::epoch), and be refused where a greater one was seen.
    ///
    /// # Errors
    ///
    /// When the file system cannot be asked. That is no answer: who cannot ask for long should resign.
    pub fn is_current(&self) -> io::Result<bool> {
        // The lock itself is no longer held in a forked process, and not found under the path of a directory that was replaced.
        self.lock.is_current()
    }

    /// Passes an epoch that somebody has seen, so that nothing of this term is refused for being older.
    ///
    /// A client may come with a greater epoch than ours when the directory was restored from a copy, or its files were lost.
    /// Nothing happens when this term is above `seen` already. Else the term goes on with the epoch after `seen`, which is durable
    /// when this returns: call it before anything more is granted. Returns the epoch of the term from now on.
    ///
    /// # Errors
    ///
    /// The term then keeps its old epoch, which is below `seen`: grant nothing more, and resign. A leader that is no longer
    /// [current](Leadership::is_current) is refused before it writes anything. [`CampaignError::SeenSpent`] when there is no epoch after
    /// `seen`; nothing was changed then, and if you do not believe the client, go on without it.
    pub fn raise(&mut self, seen: Epoch) -> Result<Epoch, CampaignError> {
        if self.epoch > seen {
            return Ok(self.epoch);
        }
        if self.is_forked() {
            let directory = self.directory.path().to_owned();
            return Err(CampaignError::Forked { directory, epoch: self.epoch });
        }
        let spent =
            |source: EpochsSpent| CampaignError::SeenSpent { directory: self.directory.path().to_owned(), source };
        let next = seen.max(self.written).next().map_err(spent)?;
        self.written = next;
        copies::write(&self.directory, &self.lock, next)?;
        tracing::info!(directory = %self.directory.path().display(), from = %self.epoch, epoch = %next, "raised the epoch of the term");
        self.epoch = next;
        Ok(next)
    }

    /// Ends the term: unlocks `flight.lock`, so that the next campaign wins.
    ///
    /// **The last act.** Whatever only a leader may do must have stopped before: the successor may begin before this returns.
    /// Also, remove nothing afterwards that a successor may have put in its place by then.
    ///
    /// # Errors
    ///
    /// [`ResignError`] when the kernel refused to unlock. The term is over all the same.
    pub fn resign(self) -> Result<(), ResignError> {
        let path = copies::path(&self.directory, LOCK_FILE);
        tracing::info!(directory = %self.directory.path().display(), epoch = %self.epoch, "resigned");
        self.lock.unlock().map_err(|source| ResignError { path, source })
    }

    fn is_forked(&self) -> bool {
        process::id() != self.winner
    }
}
