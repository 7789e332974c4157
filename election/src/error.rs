//! What can go wrong with a campaign, and with the end of a term.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use flight_fencing::{Epoch, EpochsSpent};
use flight_key_lock::LockError;

use crate::epoch_file::EpochFault;
use crate::transient;

/// A step of a campaign, in their order. [`CampaignError::step`] says at which one it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CampaignStep {
    /// To lock `flight.lock`.
    Lock,
    /// To read the last epoch in `flight.epoch`.
    ReadEpoch,
    /// To read the second copy of it in `flight.lock`.
    ReadSecondCopy,
    /// To find the epoch that follows.
    ChooseEpoch,
    /// To see that the lock and the directory are still those at their paths, before and after the epoch is written.
    CheckLock,
    /// To write the new epoch to `flight.epoch`, durably.
    WriteEpoch,
    /// To write the second copy of it to `flight.lock`, durably.
    WriteSecondCopy,
}

impl fmt::Display for CampaignStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CampaignStep::Lock => "lock",
            CampaignStep::ReadEpoch => "read the last epoch in",
            CampaignStep::ReadSecondCopy => "read the second copy of the epoch in",
            CampaignStep::ChooseEpoch => "choose the epoch after the one in",
            CampaignStep::CheckLock => "check the lock on",
            CampaignStep::WriteEpoch => "write the new epoch to",
            CampaignStep::WriteSecondCopy => "write the second copy of the epoch to",
        })
    }
}

/// A campaign that was neither won nor lost to another process, or a [`raise`](crate::Leadership::raise) that failed.
///
/// Nothing is held afterwards: a failed campaign has unlocked before it returns. Of what it wrote, at most a greater number
/// remains in one of the files or in both. No term has that number, and the next one is above it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The path of the directory leads to another directory by now, or nowhere. Whoever opens it anew elects there, so that a
    /// term in this one would lead nobody: open the path again and campaign there.
    #[error(
        "the directory {} was removed or replaced since it was opened: open it again, and campaign in the new one",
        directory.display()
    )]
    DirectoryReplaced {
        /// The path under which the directory was opened.
        directory: PathBuf,
    },

    /// `flight.lock` was removed or replaced while this process held it, so that another may have locked the new one. Nobody may do
    /// that; a cleaner of old files might. A campaign may be tried again at once; a leadership is over.
    #[error(
        "{} was removed or replaced while it was locked: another process may lead by now; campaign again, and keep cleaners of old \
         files away from it",
        path.display()
    )]
    LockReplaced {
        /// The lock file.
        path: PathBuf,
    },

    /// The leadership was carried into a forked process. It belongs to the process that won it.
    #[error(
        "the leadership of epoch {epoch} in {} belongs to the process that won it, and this one was forked from it: campaign anew",
        directory.display()
    )]
    Forked {
        /// The directory.
        directory: PathBuf,
        /// The epoch of the parent's term.
        epoch: Epoch,
    },

    /// There was an epoch, and neither copy of it can be read any more. To begin again at some lower number would let stale
    /// holders through, so that a person has to say how to go on.
    #[error(
        "no copy of the last epoch can be read ({}: {epoch_fault}; {}: {lock_fault}): write a number above every epoch that was \
         ever used, and a line feed, to {}; `date +%s` prints such a number, unless terms were won faster than one a second",
        epoch_file.display(), lock_file.display(), epoch_file.display()
    )]
    EpochUnreadable {
        /// Where the epoch is kept.
        epoch_file: PathBuf,
        /// What is wrong there.
        epoch_fault: EpochFault,
        /// Where the second copy is kept.
        lock_file: PathBuf,
        /// What is wrong there.
        lock_fault: EpochFault,
    },

    /// A file holds the greatest epoch there is.
    #[error("{} holds the epoch {}: {source}", path.display(), Epoch::MAX)]
    EpochsSpent {
        /// The file with that epoch.
        path: PathBuf,
        /// Why there is none after it, and what to do.
        source: EpochsSpent,
    },

    /// The epoch that was passed in as seen is the greatest there is.
    #[error("somebody claims to have seen the epoch {} of {}: {source}", Epoch::MAX, directory.display())]
    SeenSpent {
        /// The directory of the election.
        directory: PathBuf,
        /// Why there is none after it, and what to do.
        source: EpochsSpent,
    },

    /// The lock file could not be opened or locked. (That another process holds it is no error.)
    #[error("{source}")]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What went wrong, and what to do.
        source: Box<LockError>,
    },

    /// The operating system refused one of the other steps.
    #[error("cannot {step} {}: {source}", path.display())]
    Io {
        /// What was tried.
        step: CampaignStep,
        /// The file or directory with which it was tried.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl CampaignError {
    /// The step at which the campaign ended.
    #[must_use]
    pub fn step(&self) -> CampaignStep {
        match self {
            CampaignError::DirectoryReplaced { .. }
            | CampaignError::LockReplaced { .. }
            | CampaignError::Forked { .. } => CampaignStep::CheckLock,
            CampaignError::EpochUnreadable { .. }
            | CampaignError::EpochsSpent { .. }
            | CampaignError::SeenSpent { .. } => CampaignStep::ChooseEpoch,
            CampaignError::Lock { .. } => CampaignStep::Lock,
            CampaignError::Io { step, .. } => *step,
        }
    }

    /// The file or directory that the step was about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            CampaignError::DirectoryReplaced { directory }
            | CampaignError::Forked { directory, .. }
            | CampaignError::SeenSpent { directory, .. } => directory,
            CampaignError::LockReplaced { path }
            | CampaignError::EpochsSpent { path, .. }
            | CampaignError::Lock { path, .. }
            | CampaignError::Io { path, .. } => path,
            CampaignError::EpochUnreadable { epoch_file, .. } => epoch_file,
        }
    }

    /// Whether the same campaign may succeed later although nobody repairs anything here: a full disk or quota, no free
    /// descriptor or memory, a device that failed, a lock file that was replaced during the campaign.
    ///
    /// It is false where trying again is useless: epochs that are unreadable or spent, missing permission, a read-only file
    /// system, a directory that was replaced.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            CampaignError::LockReplaced { .. } => true,
            CampaignError::Lock { source, .. } => source.is_transient(),
            CampaignError::Io { source, .. } => transient::is_transient(source),
            CampaignError::DirectoryReplaced { .. }
            | CampaignError::Forked { .. }
            | CampaignError::EpochUnreadable { .. }
            | CampaignError::EpochsSpent { .. }
            | CampaignError::SeenSpent { .. } => false,
        }
    }
}

/// The lock was not given back by an explicit unlock. Its descriptor is closed all the same, which frees the lock unless a child process
/// has inherited it.
#[derive(Debug, thiserror::Error)]
#[error("cannot unlock {}: {source}; the lock is free once no child of this process has it open", path.display())]
#[non_exhaustive]
pub struct ResignError {
    /// The lock file.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}
