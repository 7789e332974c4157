//! Removes the lock files of idle keys, so that the folder does not grow with every key that was ever used.
//!
//! # Invariants
//!
//! 1. A file is removed only by one who holds its lock and has found, under the lock, that its name leads to it. So nobody else holds
//!    it. Who has opened it and not yet locked it finds afterwards that its path leads elsewhere, and begins again.
//! 2. What a single call removes by itself is bounded: a caller who wants a lock must not pay for all that others left behind.

use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use crate::error::{LockError, LockStep, LockTarget};
use crate::local_directory::LocalDirectory;
use crate::lock_file::{Attempt, IfMissing, LockFile};
use crate::network_fs;
use crate::platform;

/// After so many new files through one `KeyLocks`, a round of sweeping begins. The folder stays within some thousands of files per process.
const ROUND_AFTER: usize = 4096;

/// So many names are listed for a round: some hundred KiB.
const LISTED: usize = 4 * ROUND_AFTER;

/// How many files of the round each new file pays for. More than one, so that a round ends.
const PAID_FOR: usize = 4;

/// One in so many new `KeyLocks` sweeps a slice: programs that end before they have made [`ROUND_AFTER`] files would never sweep.
const ONE_IN: u64 = 256;

/// The size of such a slice: as many files as [`ONE_IN`] programs with four keys each make.
const SLICE: usize = 1024;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sweep {
    /// How many lock files were looked at.
    pub seen: usize,
    /// How many of them nobody held, and were removed.
    pub removed: usize,
}

/// Sweeps at most so many files.
pub(crate) fn sweep(folder: &LocalDirectory, most: usize) -> Result<Sweep, LockError> {
    let mut sweep = Sweep::default();
    let mut failure = None;
    visit(folder, |name| {
        sweep.seen += 1;
        match remove_if_idle(folder, name) {
            Ok(removed) => sweep.removed += usize::from(removed),
            Err(error) => failure = Some(error),
        }
        if sweep.seen < most && failure.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failure.map_or(Ok(sweep), Err)
}

/// Shows the names of the lock files. A stranger's file is a stranger's.
fn visit(folder: &LocalDirectory, mut visit: impl FnMut(&str) -> ControlFlow<()>) -> Result<(), LockError> {
    let listed = platform::visit_names(folder.file(), folder.path(), |name| {
        if is_lock_file(name) { visit(name) } else { ControlFlow::Continue(()) }
    });
    listed.map_err(|source| failed(folder, LockStep::List, None, source))
}

fn is_lock_file(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn remove_if_idle(folder: &LocalDirectory, name: &str) -> Result<bool, LockError> {
    match LockFile::attempt(folder, name, IfMissing::Leave, &|| None)? {
        Attempt::Locked { lock, .. } => {
            // While it is locked, by invariant 1.
            let removed = platform::remove(folder.file(), folder.path(), name);
            drop(lock);
            removed.map_err(|source| failed(folder, LockStep::Remove, Some(name), source))?;
            Ok(true)
        }
        Attempt::Busy | Attempt::Missing => Ok(false),
    }
}

fn failed(folder: &LocalDirectory, step: LockStep, name: Option<&str>, source: std::io::Error) -> LockError {
    let path = name.map_or_else(|| folder.path().to_owned(), |name| folder.path().join(name));
    let file_system = network_fs::inspect(folder.file(), folder.path()).ok().map(|found| found.name);
    LockError::new(step, LockTarget::new(path, None), file_system, source)
}

/// When to sweep without being asked.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    round: Mutex<Round>,
}

#[derive(Debug, Default)]
struct Round {
    /// New files since the last round.
    created: usize,
    /// What is left of this round.
    names: Vec<String>,
}

impl Growth {
    /// A `KeyLocks` was made.
    pub(crate) fn begun(&self, folder: &LocalDirectory) {
        if RandomState::new().hash_one(0_u8).is_multiple_of(ONE_IN) {
            report(sweep(folder, SLICE).map(drop));
        }
    }

    /// A lock file was made.
    pub(crate) fn created(&self, folder: &LocalDirectory) {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        if round.names.is_empty() {
            round.created += 1;
            if round.created < ROUND_AFTER {
                return;
            }
            round.created = 0;
            let mut names = Vec::new();
            report(visit(folder, |name| {
                names.push(name.to_owned());
                if names.len() < LISTED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }));
            round.names = names;
        }
        for _ in 0..PAID_FOR {
            let Some(name) = round.names.pop() else {
                // Some hundred KiB that are not needed for a while.
                round.names = Vec::new();
                return;
            };
            report(remove_if_idle(folder, &name).map(drop));
        }
    }
}

/// A failure here fails no caller: the folder is a little larger, and that is all.
fn report(swept: Result<(), LockError>) {
    if let Err(error) = swept {
        tracing::debug!(%error, "could not remove the lock file of an idle key");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lock_files_are_swept() {
        assert!(is_lock_file(&"0af9".repeat(16)));
        for name in ["", "abc", &"0AF9".repeat(16), &"0afg".repeat(16), &"0af9".repeat(17), "flight.lock"] {
            assert!(!is_lock_file(name), "{name:?}");
        }
    }
}
