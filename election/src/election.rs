//! How a process comes to lead.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use flight_fencing::Epoch;
use flight_key_lock::{LocalDirectory, LockError, LockFile};

use crate::backoff::Backoff;
use crate::copies::{self, EPOCH_FILE, LOCK_FILE};
use crate::epoch_file::{self, NoNext, Stored};
use crate::error::CampaignError;
use crate::leadership::Leadership;

/// Elects one of the processes that name the same directory.
///
/// It is a description only: it holds no lock and no thread, and a clone of it is another one. Two of them in one process are two
/// candidates, of which at most one leads.
///
/// A campaign locks `flight.lock`, reads the last epoch, writes the next one durably, and only then is won. All forms do the same
/// and differ in how they wait while another process leads:
///
/// | | waits | for |
/// |---|---|---|
/// | [`try_campaign`](Election::try_campaign) | not at all | both |
/// | [`campaign`](Election::campaign), [`campaign_for`](Election::campaign_for) | on a timer of tokio | async code |
/// | [`campaign_blocking`](Election::campaign_blocking) | by sleeping | threads |
///
/// # How it waits
///
/// By trying again, after 1 ms at first and 50 ms at most, each time a little differently. To block in the kernel until the lock is
/// free would be quicker by some milliseconds, but such a wait cannot be withdrawn: its thread lives on after the caller has
/// left, wins some day, and leads for nobody.
///
/// # Errors
///
/// A campaign that fails does not try again by itself. It returns the [`CampaignError`], with everything released, so that the
/// caller can report it, and when it [is transient](CampaignError::is_transient) wait a while before the next one.
#[derive(Clone, Debug)]
pub struct Election {
    directory: LocalDirectory,
    seen: Option<Epoch>,
    /// The wall clock. A field, so that tests can set it wrong.
    clock: fn() -> SystemTime,
}

impl Election {
    /// The election in `directory`.
    #[must_use]
    pub fn new(directory: LocalDirectory) -> Election {
        Election { directory, seen: None, clock: SystemTime::now }
    }

    /// The same, with an epoch that somebody has seen: see [`see`](Election::see).
    #[must_use]
    pub fn with_seen(mut self, epoch: Epoch) -> Election {
        self.see(epoch);
        self
    }

    /// Takes note of an epoch that somebody has seen. A term that is won with this election is above it, whatever the files say.
    ///
    /// Of several the highest counts.
    pub fn see(&mut self, epoch: Epoch) {
        self.seen = self.seen.max(Some(epoch));
    }

    /// The directory of the election.
    #[must_use]
    pub fn directory(&self) -> &LocalDirectory {
        &self.directory
    }

    /// Campaigns once, and does not wait. `None` when another leads, or is campaigning at this moment.
    ///
    /// It is quick when lost (a few system calls). A campaign that is won has waited three times for the disk.
    ///
    /// # Errors
    ///
    /// See [`CampaignError`]. Nothing is held then.
    pub fn try_campaign(&self) -> Result<Option<Leadership>, CampaignError> {
        let lock = LockFile::try_lock(&self.directory, LOCK_FILE).map_err(|error| match error {
            LockError::DirectoryReplaced { directory } => CampaignError::DirectoryReplaced { directory },
            other => CampaignError::Lock { path: copies::path(&self.directory, LOCK_FILE), source: Box::new(other) },
        })?;
        let Some(lock) = lock else { return Ok(None) };
        // From here on each return but the last drops `lock`, which unlocks it.
        let epoch = self.next_epoch(&lock)?;
        copies::write(&self.directory, &lock, epoch)?;
        tracing::info!(directory = %self.directory.path().display(), %epoch, "elected");
        Ok(Some(Leadership::new(self.directory.clone(), lock, epoch)))
    }

    /// Campaigns until it is won.
    ///
    /// Needs a tokio runtime with its timer. The work on the files is done in place, when the future is polled: a look at
    /// a busy lock takes microseconds, and the campaign that wins waits for the disk (some milliseconds, on a slow one more). Where
    /// that is too long, call [`campaign_blocking`](Election::campaign_blocking) in `spawn_blocking`.
    ///
    /// # Cancellation
    ///
    /// Dropping the future withdraws. It holds nothing while it waits, and nothing of it lives on: it cannot win later.
    ///
    /// # Errors
    ///
    /// See [`CampaignError`]. Nothing is held then.
    pub async fn campaign(&self) -> Result<Leadership, CampaignError> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(leadership) = self.try_campaign()? {
                return Ok(leadership);
            }
            // The only point at which the future can be dropped, and nothing is held here.
            tokio::time::sleep(backoff.draw()).await;
        }
    }

    /// Campaigns until it is won or `limit` has passed; `None` then. Tries once at least, and a last time when the limit is
    /// reached.
    ///
    /// What [`campaign`](Election::campaign) says of the runtime and of cancellation is true here too. The limit bounds the wait
    /// for other leaders, not the disk.
    ///
    /// # Errors
    ///
    /// See [`CampaignError`]. Nothing is held then.
    pub async fn campaign_for(&self, limit: Duration) -> Result<Option<Leadership>, CampaignError> {
        let begun = tokio::time::Instant::now();
        let mut backoff = Backoff::new();
        loop {
            // Read before the attempt, so that there is one after the limit is reached.
            let left = limit.saturating_sub(begun.elapsed());
            if let Some(leadership) = self.try_campaign()? {
                return Ok(Some(leadership));
            }
            if left.is_zero() {
                return Ok(None);
            }
            tokio::time::sleep(backoff.draw().min(left)).await;
        }
    }

    /// Campaigns until it is won or `limit` has passed; `None` then. Without a limit it waits for as long as another process
    /// leads. Tries once at least, and a last time when the limit is reached.
    ///
    /// It blocks the thread, needs no runtime, and must not be called on a thread that runs async tasks.
    ///
    /// # Errors
    ///
    /// See [`CampaignError`]. Nothing is held then.
    pub fn campaign_blocking(&self, limit: Option<Duration>) -> Result<Option<Leadership>, CampaignError> {
        let begun = Instant::now();
        let mut backoff = Backoff::new();
        loop {
            // Read before the attempt, so that there is one after the limit is reached.
            let left = limit.map_or(Duration::MAX, |limit| limit.saturating_sub(begun.elapsed()));
            if let Some(leadership) = self.try_campaign()? {
                return Ok(Some(leadership));
            }
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(backoff.draw().min(left));
        }
    }

    /// The epoch of the term that begins with `lock`.
    fn next_epoch(&self, lock: &LockFile) -> Result<Epoch, CampaignError> {
        let (epoch_file, lock_file) = copies::read(&self.directory, lock)?;
        for (copy, name) in [(&epoch_file, EPOCH_FILE), (&lock_file, LOCK_FILE)] {
            if let Stored::Unreadable(fault) = copy {
                let path = copies::path(&self.directory, name);
                tracing::warn!(path = %path.display(), %fault, "a copy of the epoch is damaged");
            }
        }
        epoch_file::next(epoch_file, lock_file, self.seen, self.clock).map_err(|no_next| self.no_next(no_next))
    }

    fn no_next(&self, no_next: NoNext) -> CampaignError {
        let path = |name| copies::path(&self.directory, name);
        match no_next {
            NoNext::Unreadable { epoch_file, lock_file } => CampaignError::EpochUnreadable {
                epoch_file: path(EPOCH_FILE),
                epoch_fault: epoch_file,
                lock_file: path(LOCK_FILE),
                lock_fault: lock_file,
            },
            NoNext::SpentInEpochFile(source) => CampaignError::EpochsSpent { path: path(EPOCH_FILE), source },
            NoNext::SpentInLockFile(source) => CampaignError::EpochsSpent { path: path(LOCK_FILE), source },
            NoNext::SpentElsewhere(source) => {
                CampaignError::SeenSpent { directory: self.directory.path().to_owned(), source }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::UNIX_EPOCH;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const IN_2026: Duration = Duration::from_secs(1_772_000_000);

    fn in_2026() -> SystemTime {
        UNIX_EPOCH + IN_2026
    }

    /// One term, in a process whose clock shows something else.
    fn term(directory: &LocalDirectory, clock: fn() -> SystemTime) -> u32 {
        let election = Election { clock, ..Election::new(directory.clone()) };
        let leadership = election.try_campaign().expect("nothing is in the way").expect("nobody leads");
        leadership.epoch().get()
    }

    #[test]
    fn only_the_first_epoch_of_a_directory_knows_the_time() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let directory = LocalDirectory::open(folder.path()).expect("it is local");
        let clocks: [fn() -> SystemTime; 6] = [
            || in_2026() - DAY,
            || in_2026() + DAY,
            || UNIX_EPOCH,
            || UNIX_EPOCH - DAY,
            || UNIX_EPOCH + Duration::from_secs(1 << 32),
            || panic!("no term but the first asks the clock"),
        ];
        let mut last = term(&directory, in_2026);
        assert_eq!(u64::from(last), IN_2026.as_secs());
        for clock in clocks {
            let epoch = term(&directory, clock);
            assert_eq!(epoch, last + 1, "stored, and not the time");
            last = epoch;
        }
        // One copy is enough, whichever it is.
        for lost in [EPOCH_FILE, LOCK_FILE] {
            fs::remove_file(folder.path().join(lost)).expect("it is there");
            let epoch = term(&directory, || panic!("the other copy is there"));
            assert_eq!(epoch, last + 1);
            last = epoch;
        }
    }

    #[test]
    fn key_locks_in_the_directory_do_not_make_it_an_old_one() {
        // Whoever calls first takes its key's lock before anybody is elected: `execution-locks` says nothing of terms.
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let directory = LocalDirectory::open(folder.path()).expect("it is local");
        let keys = folder.path().join("execution-locks");
        fs::create_dir(&keys).expect("it is new");
        fs::write(keys.join("0".repeat(64)), "").expect("it is new");
        assert_eq!(u64::from(term(&directory, in_2026)), IN_2026.as_secs());
    }
}
