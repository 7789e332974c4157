//! One call: what may be said before it starts, and the future of its outcome.

use crate::client::{JoinedFlight, Verdict};
use crate::codec::Codec;
use crate::driver::{Delivered, OwnEnd, Step, Ticket, Work};
use crate::error::{RunError, WaitingFor};
use crate::key::Key;
use crate::lease::Lease;
use crate::lineage::Lineage;
use crate::outcome::{Failure, Outcome, OutcomeKind};
use crate::single_flight::SingleFlight;
use flight_fencing::FencingToken;
use flight_lease::LeaseLost;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The end of a flight, as one of its callers sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight<T> {
    /// The value.
    pub value: T,
    /// Whether another call's work made it.
    pub joined: bool,
    /// The flight's fencing token: greater than that of every flight of the key before it.
    pub token: FencingToken,
}

/// The flight that a call joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The leader's process id, in its own namespace. For the eyes of people: nothing is decided by it.
    pub pid: u32,
    /// What the leader calls itself: [`Options::label`](crate::Options::label).
    pub label: String,
    /// The flight's token.
    pub token: FencingToken,
    /// How long the flight had been running when this call joined it.
    pub since: Duration,
}

/// A call that has not started. Await it, or [`start`](Run::start) it; dropped, it does nothing.
#[must_use = "a call does nothing until it is awaited or started"]
pub struct Run<T> {
    pub(crate) flights: SingleFlight<T>,
    pub(crate) key: Key,
    pub(crate) work: Work,
    pub(crate) on_join: Option<OnJoin>,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) lineage: Lineage,
}

pub(crate) type OnJoin = Box<dyn FnOnce(&Joined) + Send>;

impl<T> Run<T> {
    /// Calls `listener` once when this call joins another call's flight: to say who runs it, and since when.
    ///
    /// It runs on the task that polls the call. A panic in it fails this call only.
    pub fn on_join(mut self, listener: impl FnOnce(&Joined) + Send + 'static) -> Self {
        self.on_join = Some(Box::new(listener));
        self
    }

    /// Limits the time until this call's own work begins or the outcome of a joined flight arrives.
    ///
    /// It never bounds the call's own work. When it runs out, the call withdraws, and ends with [`RunError::TimedOut`], which says what it
    /// waited for. A limit that the clock cannot express is none.
    pub fn wait_timeout(mut self, limit: Duration) -> Self {
        self.wait_timeout = Some(limit);
        self
    }

    /// Says that this call is made from inside the work of `lease`, although on another task or thread: then a call of the work's own
    /// key is refused at once instead of waiting for itself. In the work's own task it is known without this.
    pub fn within(mut self, lease: &Lease) -> Self {
        self.lineage = lease.hold.lineage().clone();
        self
    }

    /// Starts the call now and returns the future of its outcome.
    pub fn start(self) -> Call<T> {
        let Run { flights, key, work, on_join, wait_timeout, lineage } = self;
        let started = flights.begin(&key, work, wait_timeout, &lineage);
        let state = match started {
            Ok(ticket) => State::Waiting(ticket),
            Err(error) => State::Refused(error),
        };
        Call { codec: flights.codec().clone(), flights, key, on_join, wait_timeout, state: Some(state) }
    }
}

impl<T: Send + 'static> IntoFuture for Run<T> {
    type Output = Result<Flight<T>, RunError>;
    type IntoFuture = Call<T>;

    fn into_future(self) -> Call<T> {
        self.start()
    }
}

impl<T> fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("key", &self.key).field("wait_timeout", &self.wait_timeout).finish_non_exhaustive()
    }
}

/// A call that has started: the future of its outcome. Send and Unpin, so it fits into `join_all` and `select!`.
///
/// Dropping it withdraws this call only. If its work runs already, the work goes on and lands for the joiners.
#[must_use = "dropping a call withdraws it"]
pub struct Call<T> {
    flights: SingleFlight<T>,
    key: Key,
    codec: Arc<dyn Codec<T>>,
    on_join: Option<OnJoin>,
    wait_timeout: Option<Duration>,
    /// `None`: the outcome was taken.
    state: Option<State>,
}

enum State {
    Refused(RunError),
    Waiting(Ticket),
}

impl<T> Unpin for Call<T> {}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<T> Future for Call<T> {
    type Output = Result<Flight<T>, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let call = &mut *self;
        let ticket = match call.state.take() {
            Some(State::Refused(error)) => return Poll::Ready(Err(error)),
            Some(State::Waiting(ticket)) => ticket,
            None => panic!("a call was polled after it had returned"),
        };
        loop {
            let step = ticket.slot().poll(cx.waker());
            match step {
                None => {
                    call.state = Some(State::Waiting(ticket));
                    return Poll::Pending;
                }
                // A panic in the listener drops the ticket, which withdraws the call.
                Some(Step::Joined(flight)) => {
                    if let Some(listener) = call.on_join.take() {
                        listener(&call.flights.describe(&flight));
                    }
                }
                // Only the calls of threads run their work themselves.
                Some(Step::Run(_)) => {}
                Some(Step::End(delivered)) => {
                    let own = ticket.slot().take_own_end();
                    drop(ticket);
                    let reading = Reading { key: &call.key, codec: &*call.codec, wait_timeout: call.wait_timeout };
                    return Poll::Ready(reading.conclude(&call.flights, delivered, own));
                }
            }
        }
    }
}

/// How a verdict is read, by a task or by a blocked thread.
pub(crate) struct Reading<'a, T> {
    pub(crate) key: &'a Key,
    pub(crate) codec: &'a dyn Codec<T>,
    pub(crate) wait_timeout: Option<Duration>,
}

impl<T> Reading<'_, T> {
    pub(crate) fn conclude(
        &self,
        flights: &SingleFlight<T>,
        delivered: Delivered,
        own: Option<OwnEnd>,
    ) -> Result<Flight<T>, RunError> {
        let key = self.key.clone();
        let Delivered { verdict, error, waiting_for } = delivered;
        match verdict {
            Verdict::Landed { token, outcome, joined: true } => self.read(token, &outcome, true),
            Verdict::Landed { token, outcome, joined: false } => match own {
                None => self.read(token, &outcome, false),
                Some(OwnEnd::Error(source)) => Err(RunError::Work { key, token, source }),
                Some(OwnEnd::Encode(source)) => Err(RunError::Encode { key, token, source }),
                Some(OwnEnd::TooLarge { length, limit }) => Err(RunError::TooLarge { key, length, limit }),
                Some(OwnEnd::Panic(payload)) => std::panic::resume_unwind(payload),
            },
            Verdict::LeaseLost { token } => {
                let lost = LeaseLost::new(key.as_str(), token);
                match own {
                    Some(OwnEnd::Error(source) | OwnEnd::Encode(source)) => Err(lost.with_source(source).into()),
                    Some(OwnEnd::Panic(payload)) => std::panic::resume_unwind(payload),
                    Some(OwnEnd::TooLarge { .. }) | None => Err(lost.into()),
                }
            }
            Verdict::Interrupted { token } => Err(RunError::Interrupted { key, token }),
            Verdict::TimedOut { .. } => {
                let waiting_for = waiting_for.unwrap_or(WaitingFor::KeyLock);
                Err(RunError::TimedOut { key, waited: self.wait_timeout.unwrap_or_default(), waiting_for })
            }
            Verdict::Closed => Err(RunError::Closed { key }),
            Verdict::Rejected(reason) => Err(RunError::Rejected { key, reason }),
            Verdict::Unsupported => Err(RunError::Unsupported { key }),
            Verdict::LockFailed(_) | Verdict::Unavailable(_) => Err(flights.shared_error(key, error)),
        }
    }

    fn read(&self, token: FencingToken, outcome: &Outcome, joined: bool) -> Result<Flight<T>, RunError> {
        let key = self.key.clone();
        match outcome.kind {
            OutcomeKind::Failure => Err(RunError::Failed { key, token, failure: Failure::decode(&outcome.payload) }),
            OutcomeKind::Value => match self.codec.decode(&outcome.payload) {
                Ok(value) => Ok(Flight { value, joined, token }),
                Err(source) => Err(RunError::Decode { key, token, source }),
            },
        }
    }
}

/// What a work's end becomes: the outcome that travels, and what only the leader's own call gets.
pub(crate) fn end_of_work<T, E>(codec: &dyn Codec<T>, limit: usize, result: Result<T, E>) -> (Outcome, Option<OwnEnd>)
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    match result {
        Err(error) => {
            let error: Box<dyn Error + Send + Sync> = error.into();
            (Outcome::failure(&Failure::of(&*error)), Some(OwnEnd::Error(error)))
        }
        Ok(value) => match codec.encode(&value) {
            Ok(encoded) if encoded.len() > limit => {
                let length = encoded.len();
                let text = format!("the value takes {length} bytes encoded, and {limit} is the limit");
                (Outcome::failure(&Failure::new(Failure::TOO_LARGE, text)), Some(OwnEnd::TooLarge { length, limit }))
            }
            Ok(encoded) => (Outcome::value(encoded), None),
            Err(error) => {
                (Outcome::failure(&Failure::new(Failure::ENCODE, error.to_string())), Some(OwnEnd::Encode(error)))
            }
        },
    }
}

impl Joined {
    pub(crate) fn of(flight: &JoinedFlight, now: Duration) -> Self {
        let JoinedFlight { token, pid, label, since } = flight.clone();
        Joined { pid, label, token, since: now.saturating_sub(since) }
    }
}
