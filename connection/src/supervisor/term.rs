//! A term of this process, as a handle for those who act in it.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flight_election::{CampaignError, Leadership};
use flight_fencing::Epoch;

/// The time in which this process serves. All clones speak of the same term.
///
/// It does not keep the term alive: when the supervisor gives it up, [`is_current`](Term::is_current) says so everywhere.
#[derive(Clone)]
pub struct Term {
    inner: Arc<Inner>,
}

struct Inner {
    epoch: AtomicU32,
    /// `None` from the moment the term is given up, which is before anything is closed or unlocked.
    leadership: Mutex<Option<Leadership>>,
}

impl Term {
    pub(crate) fn new(leadership: Leadership) -> Term {
        let epoch = AtomicU32::new(leadership.epoch().get());
        Term { inner: Arc::new(Inner { epoch, leadership: Mutex::new(Some(leadership)) }) }
    }

    /// The epoch of the term. It grows when a client has seen a greater one ([`Event::EpochRaised`](crate::Event::EpochRaised)).
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch::new(self.inner.epoch.load(Ordering::Acquire))
    }

    /// Whether the term lasts and its lock is still the one at its path. Ask before each grant, from any thread: it costs a few
    /// system calls.
    ///
    /// # Errors
    ///
    /// When the file system cannot be asked. Do not grant then.
    pub fn is_current(&self) -> io::Result<bool> {
        self.leadership().as_ref().map_or(Ok(false), Leadership::is_current)
    }

    /// Passes `seen`, durably. `None`: the term was above it already, or is over.
    pub(crate) fn raise(&self, seen: Epoch) -> Result<Option<Epoch>, CampaignError> {
        let mut leadership = self.leadership();
        let Some(leadership) = leadership.as_mut() else { return Ok(None) };
        if leadership.epoch() > seen {
            return Ok(None);
        }
        let epoch = leadership.raise(seen)?;
        self.inner.epoch.store(epoch.get(), Ordering::Release);
        Ok(Some(epoch))
    }

    /// Ends the term for all who hold it. Who gets the leadership drops it last of all.
    pub(crate) fn end(&self) -> Option<Leadership> {
        self.leadership().take()
    }

    fn leadership(&self) -> MutexGuard<'_, Option<Leadership>> {
        // A panic while it was locked leaves it as it was: nothing is changed in two steps.
        self.inner.leadership.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}
