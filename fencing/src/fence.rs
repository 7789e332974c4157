//! The guard of what a lock protects.
//!
//! Invariant, kept by `Fence::admit` alone:
//! 1. The number in `highest` never shrinks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::token::FencingToken;

/// Refuses whoever comes with a token below the highest that was seen.
///
/// It stands at the **resource** (the store, the file, the device), not at the lock: a holder that was paused between
/// "I hold the lock" and its write cannot know that its time is over, but the resource can. The same token may come any number of
/// times, since one holder writes more than once.
///
/// ```
/// use flight_fencing::{Epoch, Fence, FencingToken};
///
/// let fence = Fence::new();
/// let paused = FencingToken::new(Epoch::new(1), 8);
/// let current = FencingToken::new(Epoch::new(1), 9);
/// fence.admit(paused)?;
/// fence.admit(current)?;
/// fence.admit(current)?;
/// let stale = fence.admit(paused).expect_err("a greater token has been here");
/// assert_eq!((stale.presented, stale.highest), (paused, current));
/// # Ok::<(), flight_fencing::Stale>(())
/// ```
///
/// # Admit and write in one step
///
/// `admit` may be called from any number of threads, and never waits. But a thread can be admitted, sleep, and write after a
/// greater token was admitted *and* has written. So **do both under one lock of the resource**, or in one
/// transaction: `UPDATE … SET value = ?, token = ? WHERE id = ? AND token <= ?` is a fence of its own.
///
/// ```
/// use flight_fencing::{Fence, FencingToken, Stale};
/// use std::sync::Mutex;
///
/// struct Store {
///     fence: Fence,
///     text: Mutex<String>,
/// }
///
/// impl Store {
///     fn write(&self, token: FencingToken, new: &str) -> Result<(), Stale> {
///         let mut text = self.text.lock().expect("no holder panics");
///         self.fence.admit(token)?; // under the lock: from here to the write no greater token comes in between
///         new.clone_into(&mut text);
///         Ok(())
///     }
/// }
/// ```
///
/// # What it remembers
///
/// The highest token, in memory. A resource that outlives its process keeps the token beside its data, and begins again with
/// [`Fence::starting_at`]; a fence that starts empty lets the stale one through once.
#[derive(Default)]
pub struct Fence {
    /// 0 until a token was admitted: the lowest token of all, which refuses nobody.
    highest: AtomicU64,
}

impl Fence {
    /// A fence that has seen nothing, and admits any first token.
    #[must_use]
    pub const fn new() -> Fence {
        Fence { highest: AtomicU64::new(0) }
    }

    /// A fence that has seen `token`: it admits that one and greater ones.
    #[must_use]
    pub const fn starting_at(token: FencingToken) -> Fence {
        Fence { highest: AtomicU64::new(token.as_u64()) }
    }

    /// Lets `token` pass, and remembers it, unless a greater one has passed before.
    ///
    /// Of two threads with different tokens the one with the greater token always passes. Whoever is admitted also sees what
    /// the threads that were admitted before it had written until then.
    ///
    /// # Errors
    ///
    /// [`Stale`] when a greater token was seen. Its holder has lost its place for good: to try again with the same token is
    /// useless.
    pub fn admit(&self, token: FencingToken) -> Result<(), Stale> {
        // One step, not a load and a store: two threads that compare first and store later could store the lower number last,
        // against invariant 1.
        let before = self.highest.fetch_max(token.as_u64(), Ordering::AcqRel);
        if before > token.as_u64() {
            return Err(Stale { presented: token, highest: FencingToken::from_u64(before) });
        }
        Ok(())
    }

    /// The highest token that was seen, or `None` when there was none.
    ///
    /// (The token 0, which no [`TokenSource`](crate::TokenSource) hands out, counts as none.)
    #[must_use]
    pub fn highest(&self) -> Option<FencingToken> {
        match self.highest.load(Ordering::Acquire) {
            0 => None,
            number => Some(FencingToken::from_u64(number)),
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("highest", &self.highest()).finish()
    }
}

/// A [`Fence`] refused a token, because a greater one has been there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "the fencing token {presented} is stale: {highest} has been here already, so another holder has taken over; stop, and do not \
     try again with the same token"
)]
#[non_exhaustive]
pub struct Stale {
    /// The token that was refused.
    pub presented: FencingToken,
    /// The highest token that the fence had seen.
    pub highest: FencingToken,
}
