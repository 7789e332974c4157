//! A term of this process: from the won campaign to the release of the lock.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use flight_election::{CampaignError, Leadership};

use super::Supervisor;
use super::channel::Stage;
use super::event::{DeposedReason, DisconnectReason, Event};
use super::role::Role;
use super::seeking::Seeking;
use super::term::Term;
use crate::attention::{Bell, Source};
use crate::backoff::Backoff;
use crate::connection::ConnectionId;
use crate::error::AttemptError;
use crate::frame::Frame;
use crate::handshake::{HandshakeError, Hello};
use crate::socket::{self, Address, Listener, Socket};

/// How many connections are accepted before the existing ones have their turn.
const ACCEPTED_AT_ONCE: usize = 64;

/// The pauses when a connection cannot be accepted for want of descriptors or memory. The kernel keeps it in the queue.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// After so many looks in a row that the file system did not answer, nobody knows whether we are alone.
const UNANSWERED_CHECKS: u32 = 5;

/// What a serving process has.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) term: Term,
    pub(super) listener: Listener,
    /// Until when nothing is accepted.
    pub(super) paused_until: Option<Instant>,
    pause: Backoff,
    bell: Arc<Bell>,
    unanswered: u32,
}

/// Releases the lock: the last act of a term.
pub(super) fn release(leadership: Leadership) {
    // The descriptor is closed in any case.
    if let Err(error) = leadership.resign() {
        tracing::warn!(%error, "could not release the lock explicitly");
    }
}

/// Makes the socket of a term and gives it its name.
fn publish(address: &Address, term: &Term) -> Result<Listener, AttemptError> {
    socket::publish(address, term.epoch(), || {
        if term.is_current()? {
            return Ok(());
        }
        Err(io::Error::other(
            "flight.lock or its directory was replaced meanwhile, so that another process may be elected",
        ))
    })
}

impl Supervisor {
    /// From the won campaign to the socket.
    pub(super) fn serve(&mut self, leadership: Leadership) -> Result<Serving, AttemptError> {
        let term = Term::new(leadership);
        self.saw(term.epoch());
        let listener = match publish(&self.address, &term) {
            Ok(listener) => listener,
            Err(error) => {
                term.end().into_iter().for_each(release);
                return Err(error);
            }
        };
        let bell = Bell::new(Source::Listener, Arc::clone(&self.attention));
        // The first look registers the waker.
        bell.ring();
        self.events.push_back(Event::Elected(term.clone()));
        let pause = Backoff::new(PAUSE.0, PAUSE.1);
        Ok(Serving { term, listener, paused_until: None, pause, bell, unanswered: 0 })
    }

    /// Accepts who waits, within one turn's bounds.
    pub(super) fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTED_AT_ONCE {
            if !self.accept_one(now) {
                return;
            }
        }
        if let Role::Serving(serving) = &self.role {
            serving.bell.ring();
        }
    }

    /// Accepts all who wait now. There cannot be more than the kernel's queue holds.
    pub(super) fn accept_all(&mut self, now: Instant) {
        while self.accept_one(now) {}
    }

    /// Whether there may be another one.
    fn accept_one(&mut self, now: Instant) -> bool {
        let Role::Serving(serving) = &mut self.role else { return false };
        serving.bell.heard();
        if serving.paused_until.is_some() {
            return false;
        }
        match serving.listener.poll_accept(&mut Context::from_waker(&serving.bell.waker())) {
            Poll::Pending => false,
            Poll::Ready(Ok(socket)) => {
                serving.pause.reset();
                self.welcome(socket, now);
                true
            }
            Poll::Ready(Err(error)) => {
                // The kernel goes on saying that somebody waits. To ask again at once would be to spin.
                let until = now + serving.pause.draw();
                tracing::warn!(%error, ?until, "cannot accept a connection; those that there are go on");
                serving.paused_until = Some(until);
                false
            }
        }
    }

    /// Ends the pause, if it is over.
    pub(super) fn accept_after_pause(&mut self, now: Instant) {
        if let Role::Serving(serving) = &mut self.role
            && serving.paused_until.is_some_and(|until| until <= now)
        {
            serving.paused_until = None;
            self.accept(now);
        }
    }

    fn welcome(&mut self, socket: Socket, now: Instant) {
        let credentials = match socket.credentials() {
            Ok(credentials) => credentials,
            Err(error) => {
                tracing::debug!(%error, "a client went before it was accepted");
                return;
            }
        };
        let id = self.open_channel(socket, credentials, self.options.max_backlog);
        if !credentials.trusted {
            tracing::warn!(pid = ?credentials.pid, uid = ?credentials.uid, "refused a client of another user");
            let reason = "it belongs to another user; give each user a directory of its own";
            self.refuse(id, reason, now);
            return;
        }
        self.set_deadline(id, Some(now + self.options.hello_timeout));
    }

    /// Says no, in words, and closes.
    fn refuse(&mut self, id: ConnectionId, reason: &str, now: Instant) {
        let mut hello = self.hello(self.seen.unwrap_or(flight_fencing::Epoch::MIN));
        hello.refusal = Some(reason.to_owned());
        if let Some(channel) = self.channels.get(&id) {
            channel.greet(&hello);
        }
        self.end_channel(id, DisconnectReason::Closed, now);
    }

    /// A client has said hello: agree, and answer.
    pub(super) fn client_said_hello(&mut self, id: ConnectionId, frame: &Frame, now: Instant) {
        let Role::Serving(serving) = &self.role else { return };
        let term = serving.term.clone();
        let theirs = match Hello::read(frame, &self.hello(term.epoch())) {
            Ok(theirs) => theirs,
            Err(error) => {
                tracing::warn!(connection = %id, %error, "refused a client");
                // It compares our hello with its own and finds the same.
                match error {
                    HandshakeError::ProtocolVersion(_) | HandshakeError::OtherDirectory { .. } => {
                        if let Some(channel) = self.channels.get(&id) {
                            channel.greet(&self.hello(term.epoch()));
                        }
                        self.end_channel(id, DisconnectReason::Closed, now);
                    }
                    other => self.refuse(id, &other.to_string(), now),
                }
                return;
            }
        };
        // Durably and before anything is granted to it: it must not get a token below one that it has seen.
        if theirs.epoch > term.epoch() {
            match term.raise(theirs.epoch) {
                Ok(Some(epoch)) => {
                    tracing::warn!(seen = %theirs.epoch, %epoch, "a client has seen a greater epoch; passed it");
                    self.saw(epoch);
                    self.events.push_back(Event::EpochRaised(epoch));
                    // On Windows the name of the pipe has the epoch in it.
                    self.check_name(now);
                }
                Ok(None) => {}
                // Nothing was changed, and no honest client has seen it.
                Err(error @ CampaignError::SeenSpent { .. }) => return self.refuse(id, &error.to_string(), now),
                Err(error) => return self.depose(DeposedReason::EpochNotRaised(error), now),
            }
        }
        let ours = self.hello(term.epoch());
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.stage = Stage::Open;
        channel.greet(&ours);
        tracing::debug!(connection = %id, pid = ?channel.credentials.pid, software = theirs.software, "accepted");
        self.events.push_back(Event::Accepted(channel.connection(theirs)));
        self.set_deadline(id, None);
    }

    /// Looks whether we are still alone and can still be found.
    pub(super) fn check_term(&mut self, now: Instant) {
        let Role::Serving(serving) = &mut self.role else { return };
        match serving.term.is_current() {
            Ok(true) => serving.unanswered = 0,
            Ok(false) => return self.depose(DeposedReason::LockReplaced, now),
            Err(error) => {
                serving.unanswered += 1;
                tracing::warn!(%error, "cannot see whether this process still serves alone");
                if serving.unanswered >= UNANSWERED_CHECKS {
                    self.depose(DeposedReason::CannotCheck(error), now);
                }
                return;
            }
        }
        self.check_name(now);
    }

    /// Takes the name again if it is not ours any more. Nobody else has a right to it while we hold the lock.
    fn check_name(&mut self, now: Instant) {
        let Role::Serving(serving) = &mut self.role else { return };
        match socket::occupant(&self.address) {
            Ok(occupant) if occupant == Some(serving.listener.occupant) => return,
            Ok(_) => {
                tracing::warn!(path = %self.address.path().display(), "the socket was removed or replaced; publishing it again");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot see whether the socket can still be found");
                return;
            }
        }
        match publish(&self.address, &serving.term) {
            Ok(listener) => {
                // Who waits at the old one has connected rightly.
                self.accept_all(now);
                if let Role::Serving(serving) = &mut self.role {
                    serving.listener = listener;
                    serving.bell.ring();
                }
            }
            // Those who are connected go on, and in a second we try again. It is no failure to connect or to serve, so that nobody's
            // call has to end for it.
            Err(error) => tracing::warn!(%error, "the socket cannot be published again yet"),
        }
    }

    /// Ends the term, in the order of invariant 3.
    pub(super) fn depose(&mut self, reason: DeposedReason, now: Instant) {
        if !matches!(self.role, Role::Serving(_)) {
            return;
        }
        let Role::Serving(serving) = std::mem::replace(&mut self.role, Role::Idle) else { return };
        let leadership = serving.term.end();
        drop(serving.listener);
        self.end_channels(|| DisconnectReason::TermEnded);
        leadership.into_iter().for_each(release);
        tracing::info!(epoch = %serving.term.epoch(), %reason, "the term of this process is over");
        self.events.push_back(Event::Deposed(reason));
        if self.attention.is_wanted() {
            let mut seeking = Seeking::new(now);
            // Whoever waits for the lock comes first.
            seeking.again(now, None);
            self.role = Role::Seeking(seeking);
        }
    }
}
