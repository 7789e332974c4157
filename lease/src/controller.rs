//! What the one who gave the lease out keeps.

use std::fmt;
use std::sync::Arc;

use flight_fencing::FencingToken;
use tokio::sync::watch;

use crate::lease::{Lease, Terms};

/// The other end of a [`Lease`]: it loses the lease, and learns when the lease was given back.
///
/// ```
/// use flight_fencing::{Epoch, TokenSource};
/// use flight_lease::LeaseController;
///
/// let token = TokenSource::new(Epoch::new(1)).mint()?;
/// let (controller, lease) = LeaseController::new("report", token);
/// assert!(lease.check().is_ok());
///
/// controller.lose();
/// assert!(lease.is_lost());
/// assert!(!controller.is_released()); // the holder was told; it is still there
///
/// drop(lease);
/// assert!(controller.is_released());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # When it is dropped
///
/// The lease stays as it was: **the end of the controller is not a loss**. Whoever gives out leases drops the controller when
/// all is in order (the work's result was taken), and clones that are still around then must not cry for help. Who ends for
/// another reason calls [`lose`](LeaseController::lose) first.
#[must_use = "without its controller a lease can never be lost"]
pub struct LeaseController {
    terms: Arc<Terms>,
    lost: watch::Sender<bool>,
}

impl LeaseController {
    /// A new lease of `subject` with `token`, and its controller.
    pub fn new(subject: impl Into<Arc<str>>, token: FencingToken) -> (LeaseController, Lease) {
        let terms = Arc::new(Terms { subject: subject.into(), token });
        let (sender, receiver) = watch::channel(false);
        let lease = Lease { terms: Arc::clone(&terms), lost: receiver };
        let controller = LeaseController { terms, lost: sender };
        (controller, lease)
    }

    /// What the lease is about.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.terms.subject
    }

    /// The token of the lease.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.terms.token
    }

    /// Tells the holder that the lease is lost: it wakes all who wait for [`Lease::lost`]. The second call changes nothing.
    ///
    /// It waits for nobody. Who must know that the holder has stopped waits for [`released`](LeaseController::released).
    pub fn lose(&self) {
        self.lost.send_if_modified(|lost| !std::mem::replace(lost, true));
    }

    /// Whether [`lose`](LeaseController::lose) was called.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Completes when the last clone of the [`Lease`] was dropped; at once, if there is none any more.
    ///
    /// It has no limit: a holder may keep its lease for ever. Needs no runtime. Cancel safe: a dropped future loses nothing.
    pub async fn released(&self) {
        self.lost.closed().await;
    }

    /// Whether the last clone of the [`Lease`] was dropped. Once `true` it stays so.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.lost.is_closed()
    }
}

impl fmt::Debug for LeaseController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseController")
            .field("subject", &self.terms.subject)
            .field("token", &self.terms.token)
            .field("is_lost", &self.is_lost())
            .field("is_released", &self.is_released())
            .finish()
    }
}
