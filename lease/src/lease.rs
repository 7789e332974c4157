//! What the holder has in hand.
//!
//! Invariants, kept by this file and `controller.rs`:
//! 1. Lost is for good: the flag goes from `false` to `true` once, and never back.
//! 2. Only the controller loses a lease. Its end alone changes nothing.
//! 3. Every receiver of the channel belongs to a `Lease`, or to a future that borrows one. So "no receiver is left" means "no
//!    lease is left", and that is what `LeaseController::released` waits for.

use std::fmt;
use std::future;
use std::sync::Arc;

use flight_fencing::FencingToken;
use tokio::sync::watch;

use crate::error::LeaseLost;

/// What a lease is about: the same for all clones and their controller.
pub(crate) struct Terms {
    pub(crate) subject: Arc<str>,
    pub(crate) token: FencingToken,
}

/// The right to work on a subject: a [fencing token](FencingToken), and a signal that comes when the right is lost.
///
/// Work that takes a while looks at the signal in one of three ways:
/// - [`lost`](Lease::lost) beside the work in a `select!`, to stop at once;
/// - [`check`](Lease::check) with `?` before each step that others would see;
/// - [`is_lost`](Lease::is_lost) in a loop of a plain thread.
///
/// And it sends [`token`](Lease::token) along with every write to what can check it. The signal is quick, but it is a message;
/// only a fence at the resource also stops a holder that was paused between `check` and its write.
///
/// A lost lease does nothing by itself. It stops no task, it panics nowhere; it is the holder who stops.
///
/// # Clones
///
/// All clones are one lease: they are lost together. The lease counts as **held until the last clone is dropped**, and whoever
/// gave it out may keep others waiting until then. Move a clone into a thread or a `spawn_blocking` that works on the subject, so
/// that the subject stays yours while that works. A clone that is stored somewhere, or moved into a task that only
/// waits for `lost`, holds the subject for ever.
#[must_use = "the lease is given back when its last clone is dropped"]
#[derive(Clone)]
pub struct Lease {
    pub(crate) terms: Arc<Terms>,
    pub(crate) lost: watch::Receiver<bool>,
}

impl Lease {
    /// The number that orders this holder among all holders of the subject. Send it with each write.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.terms.token
    }

    /// What the lease is about, such as the key of a lock.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.terms.subject
    }

    /// Whether the lease was lost. Never waits.
    ///
    /// `false` is about this moment: the lease may be lost in the next one.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// An error if the lease was lost. Never waits.
    ///
    /// ```
    /// # use flight_lease::{Lease, LeaseLost};
    /// fn publish(lease: &Lease) -> Result<(), LeaseLost> {
    ///     for _step in 0..3 {
    ///         lease.check()?;
    ///         // … what others would see
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], which names the subject and the token.
    pub fn check(&self) -> Result<(), LeaseLost> {
        if self.is_lost() {
            return Err(LeaseLost::of(&self.terms));
        }
        Ok(())
    }

    /// Completes when the lease is lost; at once, if it was lost before.
    ///
    /// It never completes when the lease can no longer be lost, because its controller ended. So use it beside the work, as in
    /// the [example of this crate](crate), and not alone.
    ///
    /// Needs no runtime. Cancel safe: a dropped future loses nothing, and a later call hears of the same loss. Any number may
    /// wait at the same time.
    pub async fn lost(&self) {
        // Its own receiver, since waiting needs one that is mutable. It lives no longer than the borrow of `self` (invariant 3).
        let mut receiver = self.lost.clone();
        if receiver.wait_for(|lost| *lost).await.is_err() {
            // The controller ended without losing the lease, and only it could have (invariant 2).
            future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("subject", &self.terms.subject)
            .field("token", &self.terms.token)
            .field("is_lost", &self.is_lost())
            .finish()
    }
}
