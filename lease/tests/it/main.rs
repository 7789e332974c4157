//! The promises of `flight-lease`, as a user meets them.

mod error;
mod lost;
mod released;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use flight_fencing::{Epoch, FencingToken};
use flight_lease::{Lease, LeaseController};

/// Long enough for any machine; a test that reaches it fails.
const DEADLINE: Duration = Duration::from_secs(30);

fn token() -> FencingToken {
    FencingToken::new(Epoch::new(3), 7)
}

fn lease() -> (LeaseController, Lease) {
    LeaseController::new("report", token())
}

/// Whether one look at the future finds it complete. Proves "it waits" without any time passing.
fn completes<F: Future>(future: Pin<&mut F>) -> bool {
    matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
}

/// Waits for `future`, and fails the test when that takes for ever.
async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what}: nothing in {DEADLINE:?}"))
}
