//! The coordinator: decides who leads, who joins, and what each of them hears. It does nothing itself.
//!
//! The driver calls [`Coordinator::handle`] with the time and what happened, then drains [`Coordinator::poll_action`], then
//! sleeps until [`Coordinator::poll_timeout`] and calls `handle` with [`Event::Timeout`]. There is no other order.
//!
//! What is absent: the coordinator reads no clock, draws no random number, opens no file, awaits nothing, and never looks into
//! a payload. It does not know whether a process lives: only a key lock that it finds free tells it.
//!
//! # Invariants
//! 1. A key has at most one flight. Its token is greater than that of every flight of the key that began before.
//! 2. A party (a connection and an id) plays at most one role: it leads, joins, rejoins or waits.
//! 3. A joiner of a flight was told `joined` with the flight's token by this coordinator, or said `rejoin` with it.
//! 4. `ack` goes out when no `landed` of that flight is still on its way to a socket.
//! 5. `joined` goes out only for a flight that began, after the leader's connection was read dry since the join arrived.
//! 6. A flight ends as `interrupted` only by its leader's `cancel`, by a younger claim of who holds the lock, or when
//!    its key lock was found free and what had been received until then was read.

mod callers;
mod checker;
mod claims;
mod delivery;
mod flight;
mod kept;
mod report;
mod watch;

use crate::key::Key;
use crate::protocol::{Rejection, Request, RequestId, Response};
use crate::safeguards::{Safeguard, on};
use flight::KeyState;
use flight_fencing::{Epoch, FencingToken, TokenSource};
use kept::Kept;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A time, as the span since some moment before the machine was made. Only differences matter.
pub type Time = Duration;

/// One client's connection. Zero is the client in the coordinator's own process, which needs no socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u64);

impl Link {
    /// The client in the coordinator's own process.
    pub const LOCAL: Link = Link(0);
}

/// A client process, by a number that it drew when it started. It only serves to refuse what another one was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// One call of one client, as the coordinator knows it: it lives and dies with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Party {
    pub(crate) link: Link,
    pub(crate) id: RequestId,
}

/// Everything that can happen to a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A client is connected and its handshake done.
    Connected {
        /// The connection.
        link: Link,
        /// Who it is.
        client: ClientId,
        /// Its process id, for the eyes of people.
        pid: u32,
    },
    /// A request arrived.
    Received {
        /// The connection that it came on.
        link: Link,
        /// The request.
        request: Request,
        /// Whether the lock file of the term was still the one at its path when the request was read. A `lead` is granted only then.
        term_is_current: bool,
    },
    /// The connection ended, and everything that it had received was handled before.
    Disconnected {
        /// The connection.
        link: Link,
    },
    /// A `landed` that was sent with this delivery is wholly in the connection's socket.
    Delivered {
        /// The connection.
        link: Link,
        /// The delivery of [`Action::Send`].
        delivery: u64,
    },
    /// So many bytes still wait for a place in the connection's socket. Said when it changed.
    Backlog {
        /// The connection.
        link: Link,
        /// The bytes. Zero: all is in the socket.
        bytes: usize,
        /// How many bytes the socket has ever taken. It took something when this grew.
        written: u64,
    },
    /// The key lock was looked at, as [`Action::Probe`] asked. When it was free, the driver holds it until `handle` returns.
    Probed {
        /// The key.
        key: Key,
        /// Whether nobody held it.
        free: bool,
    },
    /// What [`Action::ReadDry`] asked for is done: all that had been received by then was handled before.
    Dry {
        /// The ticket of the action.
        ticket: u64,
    },
    /// The term's epoch was raised, durably: a client had seen a higher one.
    EpochRaised {
        /// The epoch that counts from now on.
        epoch: Epoch,
    },
    /// The time of `poll_timeout` has come.
    Timeout,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a response.
    Send {
        /// To whom. A connection that has ended meanwhile gets nothing, and that is right.
        link: Link,
        /// The response.
        response: Response,
        /// Say [`Event::Delivered`] with this number when the frame is wholly in the socket.
        delivery: Option<u64>,
    },
    /// Close a connection, after reading what it has already received.
    Close {
        /// The connection.
        link: Link,
        /// Why.
        reason: CloseReason,
    },
    /// Read what these connections have already received, then say [`Event::Dry`].
    ReadDry {
        /// One connection, or all of them.
        link: Option<Link>,
        /// The number to say.
        ticket: u64,
    },
    /// Try the key lock, say [`Event::Probed`], and let go at once.
    Probe {
        /// The key.
        key: Key,
    },
    /// End the term: stop granting, close the listener and the connections, unlock last.
    Resign {
        /// Why.
        reason: ResignReason,
    },
}

/// Why a connection is closed by the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// It took nothing for [`STALL`].
    Stalled,
    /// More than [`QUEUE_LIMIT`] bytes waited for it.
    QueueFull,
    /// Its client has a newer one.
    Superseded,
}

/// Why a coordinator ends its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResignReason {
    /// Its lock file is not the one at the path any more.
    NotCurrent,
    /// Every token of the term was granted.
    CounterSpent,
}

/// A joiner that takes nothing for so long has its connection closed. It is long for a process that runs (a socket takes a
/// hundred kilobytes before it is full) and short for the leader, whose acknowledgement waits for it.
pub const STALL: Duration = Duration::from_millis(250);

/// No connection may have more bytes waiting than this: two outcomes of the greatest length.
pub const QUEUE_LIMIT: usize = 128 << 20;

/// What hangs on one connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Connected {
    client: ClientId,
    pid: u32,
    /// The key of each living id. Its role is found in the key's state.
    ids: BTreeMap<RequestId, Key>,
    backlog: Option<delivery::Backlog>,
}

/// The state machine. See the module's page for the order of the calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    pid: u32,
    started: Time,
    tokens: TokenSource,
    /// The last token that was granted.
    granted: Option<FencingToken>,
    links: BTreeMap<Link, Connected>,
    keys: BTreeMap<Key, KeyState>,
    kept: Kept,
    deliveries: BTreeMap<u64, delivery::Landing>,
    /// When each watched key is looked at next.
    looks: BTreeSet<(Time, Key)>,
    /// What each outstanding `ReadDry` is for.
    tickets: BTreeMap<u64, Ticket>,
    next_number: u64,
    resigned: bool,
    actions: VecDeque<Action>,
}

/// What an outstanding `ReadDry` is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Ticket {
    /// To answer the joins of a key.
    Join(Key),
    /// To decide what was noted of a key while its lock was held.
    Death(Key, watch::Noted),
}

impl Coordinator {
    /// A coordinator of a new term.
    pub fn new(now: Time, epoch: Epoch, pid: u32) -> Self {
        Coordinator {
            pid,
            started: now,
            tokens: TokenSource::new(epoch),
            granted: None,
            links: BTreeMap::new(),
            keys: BTreeMap::new(),
            kept: Kept::default(),
            deliveries: BTreeMap::new(),
            looks: BTreeSet::new(),
            tickets: BTreeMap::new(),
            next_number: 1,
            resigned: false,
            actions: VecDeque::new(),
        }
    }

    /// The epoch of the term.
    pub fn epoch(&self) -> Epoch {
        self.tokens.epoch()
    }

    /// Takes what happened. What follows from it is in [`poll_action`](Self::poll_action).
    pub fn handle(&mut self, now: Time, event: Event) {
        if self.resigned {
            return;
        }
        match event {
            Event::Connected { link, client, pid } => self.handle_connected(now, link, client, pid),
            Event::Received { link, request, term_is_current } => {
                self.handle_request(now, link, request, term_is_current);
            }
            Event::Disconnected { link } => self.handle_disconnected(now, link),
            Event::Delivered { link, delivery } => self.handle_delivered(link, delivery),
            Event::Backlog { link, bytes, written } => self.handle_backlog(now, link, bytes, written),
            Event::Probed { key, free } => self.handle_probed(now, &key, free),
            Event::Dry { ticket } => match self.tickets.remove(&ticket) {
                Some(Ticket::Join(key)) => self.handle_leader_dry(now, &key, ticket),
                Some(Ticket::Death(key, noted)) => self.decide_deaths(now, &key, &noted),
                None => {}
            },
            Event::EpochRaised { epoch } => {
                if on(Safeguard::TokensGrow) {
                    self.tokens = TokenSource::new(epoch);
                }
            }
            Event::Timeout => {
                self.kept.expire(now);
                self.close_stalled(now);
                self.look_at_due(now);
            }
        }
    }

    /// The next thing to do, in order. `None`: all is done until the next event.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call `handle` with [`Event::Timeout`], whatever else happens. `None`: never.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.resigned {
            return None;
        }
        let look = self.looks.first().map(|(at, _)| *at);
        let stall = self
            .links
            .values()
            .filter_map(|connected| connected.backlog.as_ref())
            .map(delivery::Backlog::deadline)
            .min();
        [look, stall, self.kept.next_expiry()].into_iter().flatten().min()
    }

    fn handle_request(&mut self, now: Time, link: Link, request: Request, term_is_current: bool) {
        if !self.links.contains_key(&link) {
            return;
        }
        let party = Party { link, id: request.id() };
        match request {
            Request::Lead { key, claimant, over, .. } => {
                self.handle_lead(now, party, key, claimant, over, term_is_current);
            }
            Request::Began { token, .. } => self.handle_began(now, party, token),
            Request::Join { key, codec, .. } => self.handle_join(now, party, key, codec),
            Request::Reassert { key, token, claimant, age_ms, over, .. } => {
                let since = now.saturating_sub(Duration::from_millis(age_ms));
                self.handle_reassert(now, party, key, claims::Reassertion { token, claimant, since, over });
            }
            Request::Land { key, token, outcome, .. } => self.handle_land(now, party, &key, token, outcome),
            Request::Released { key, .. } => self.wake_watch(now, &key),
            Request::Rejoin { key, token, .. } => self.handle_rejoin(now, party, key, token),
            Request::Cancel { .. } => self.handle_cancel(now, party),
            Request::Status { id } => {
                let report = self.report(now);
                self.send(link, Response::Status { id, report });
            }
            Request::Ping { id } => self.send(link, Response::Pong { id }),
            Request::Unknown { id } => self.send(link, Response::Unsupported { id }),
        }
    }

    fn send(&mut self, link: Link, response: Response) {
        if self.links.contains_key(&link) {
            self.actions.push_back(Action::Send { link, response, delivery: None });
        }
    }

    /// The last answer to a party: its id may be used again.
    fn finish(&mut self, party: Party, response: Response) {
        self.forget(party);
        self.send(party.link, response);
    }

    fn forget(&mut self, party: Party) {
        if let Some(connected) = self.links.get_mut(&party.link) {
            connected.ids.remove(&party.id);
        }
    }

    /// Notes that the party's id lives.
    fn remember(&mut self, party: Party, key: &Key) {
        if let Some(connected) = self.links.get_mut(&party.link) {
            connected.ids.insert(party.id, key.clone());
        }
    }

    fn is_living(&self, party: Party) -> bool {
        self.links.get(&party.link).is_some_and(|connected| connected.ids.contains_key(&party.id))
    }

    fn reject_token(&mut self, party: Party) {
        self.finish(party, Response::Rejected { id: party.id, reason: Rejection::Token });
    }

    fn resign(&mut self, reason: ResignReason) {
        self.resigned = true;
        self.actions.push_back(Action::Resign { reason });
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// The newest token of the key that is known to have begun.
    fn newest_begun(&self, key: &Key) -> Option<FencingToken> {
        let flight = self.keys.get(key).and_then(|state| state.flight.as_ref());
        let flying = flight.filter(|flight| flight.begun).map(|flight| flight.token);
        flying.max(self.kept.newest(key))
    }

    /// Drops the state of a key that nobody flies, joins or waits for.
    fn tidy(&mut self, key: &Key) {
        if self.keys.get(key).is_some_and(KeyState::is_empty) {
            self.unwatch(key);
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
