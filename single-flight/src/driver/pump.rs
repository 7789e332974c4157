//! Carries out what the machines want, one action after the other, under the lock.

use super::effects::{Effect, Effects};
use super::service::Service;
use super::slot::{Delivered, SharedError};
use super::state::{Errand, State};
use super::work::Hold;
use crate::client::{self, ErrorId, Look, Verdict, WaitedFor};
use crate::coordinator::{self, Link, Time};
use crate::error::WaitingFor;
use crate::key::Key;
use crate::lease::Lease;
use crate::outcome::{Failure, Outcome};
use crate::protocol::{Rejection, Request, RequestId, Response};
use crate::run::Joined;
use flight_connection::{FrameError, Phase};
use flight_fencing::FencingToken;
use flight_key_lock::LockError;
use flight_lease::LeaseController;
use std::sync::Arc;

impl State {
    /// Drains both machines. What needs other people's code is left in `effects`.
    pub(super) fn pump(&mut self, service: &Arc<Service>, now: Time, effects: &mut Effects) {
        loop {
            if let Some(action) = self.client.poll_action() {
                self.act_for_client(service, now, action, effects);
            } else if let Some(action) = self.serving.as_mut().and_then(|serving| serving.machine.poll_action()) {
                self.act_for_coordinator(now, action, effects);
            } else {
                break;
            }
        }
        self.errors.clear();
        let earlier = match (self.armed, self.timeout()) {
            (Some(armed), Some(timeout)) => timeout < armed,
            _ => false,
        };
        let unused = !self.stopping && self.is_unused();
        effects.wake_thread |= earlier || unused || !self.errands.is_empty();
    }

    fn act_for_client(&mut self, service: &Arc<Service>, now: Time, action: client::Action, effects: &mut Effects) {
        match action {
            client::Action::TryLock { entry, key } => {
                let look = self.look(now, entry, &key, effects);
                self.client.handle(now, client::Event::Locked { entry, look });
            }
            client::Action::Unlock { entry } => {
                self.leases.remove(&entry);
                if let Some(lock) = self.locks.remove(&entry).and_then(Arc::into_inner) {
                    // The descriptor is closed in any case, so a failed unlock frees the key too, unless a child has it.
                    if let Err(error) = lock.unlock() {
                        tracing::warn!(%error, "could not unlock a key explicitly");
                    }
                }
            }
            client::Action::CheckLock { entry } => {
                let current = self.locks.get(&entry).is_some_and(|lock| match lock.is_current() {
                    Ok(current) => current,
                    Err(error) => {
                        // What cannot be seen is not a difference.
                        tracing::warn!(%error, "could not compare a key lock with its path");
                        true
                    }
                });
                self.client.handle(now, client::Event::LockChecked { entry, current });
            }
            client::Action::Send { request, written } => self.send_request(now, request, written, effects),
            client::Action::Start { entry, call, token } => {
                let Some(slot) = self.slots.get(&call).cloned() else { return };
                let (key, lineage) = service.nest(&self.client, entry, &slot.lineage);
                tracing::debug!(%key, %token, role = "leader", "a flight begins");
                let lease = self.lease(service, entry, &key, token, lineage);
                effects.list.push(Effect::Start(slot, lease));
            }
            client::Action::Joined { call, flight } => {
                if let Some(slot) = self.slots.get(&call).cloned() {
                    effects.list.push(Effect::Joined(slot, flight));
                }
            }
            client::Action::Deliver { call, verdict } => {
                let Some(slot) = self.slots.remove(&call) else { return };
                let error = match &verdict {
                    Verdict::LockFailed(error) | Verdict::Unavailable(error) => self.errors.get(error).cloned(),
                    _ => None,
                };
                let waiting_for = match &verdict {
                    Verdict::TimedOut { waited_for } => Some(self.waiting_for(waited_for, now)),
                    _ => None,
                };
                effects.list.push(Effect::Deliver(slot, Delivered { verdict, error, waiting_for }));
            }
            client::Action::LoseLease { entry } => {
                if let Some(controller) = self.leases.get(&entry).cloned() {
                    tracing::warn!(key = controller.subject(), token = %controller.token(), "a lease was lost");
                    effects.list.push(Effect::Lose(controller));
                }
            }
            // Under the lock, so that the last word is the last one said.
            client::Action::Want(wanted) => service.supervisor.want(wanted),
            client::Action::Closed { owner } => {
                if let Some(closer) = self.closers.remove(&owner) {
                    effects.list.push(Effect::Closed(closer));
                }
            }
            client::Action::Silent { since } => {
                self.silent_since = Some(since);
                let pid = self.coordinator_pid();
                let silent = now.saturating_sub(since);
                tracing::warn!(
                    ?pid,
                    ?silent,
                    "the coordinator does not answer, and still holds its lock: waiting for it"
                );
            }
            client::Action::Heard => {
                self.silent_since = None;
                tracing::info!(pid = ?self.coordinator_pid(), "the coordinator answers again");
            }
            client::Action::Status { ticket, report } => {
                if let Some(asker) = self.askers.remove(&ticket) {
                    effects.list.push(Effect::Status(asker, report));
                }
            }
        }
    }

    fn look(&mut self, now: Time, entry: RequestId, key: &Key, effects: &mut Effects) -> Look {
        let mut looked = self.key_locks.look(key.as_bytes());
        if let Err(LockError::DirectoryReplaced { .. }) = looked {
            looked = self.follow_path(now, effects).and_then(|()| self.key_locks.look(key.as_bytes()));
        }
        match looked {
            Ok(Some(lock)) => {
                self.locks.insert(entry, Arc::new(lock));
                Look::Taken
            }
            Ok(None) => Look::Busy,
            Err(error) => {
                let id = ErrorId(self.number());
                self.errors.insert(id, SharedError::Lock(Arc::new(error)));
                Look::Failed(id)
            }
        }
    }

    fn lease(
        &mut self,
        service: &Arc<Service>,
        entry: RequestId,
        key: &Key,
        token: FencingToken,
        lineage: crate::lineage::Lineage,
    ) -> Lease {
        let (controller, lease) = LeaseController::new(key.as_str(), token);
        self.leases.insert(entry, Arc::new(controller));
        Lease::new(lease, Arc::new(Hold::new(service.clone(), entry, lineage)))
    }

    fn send_request(&mut self, now: Time, request: Request, written: Option<RequestId>, effects: &mut Effects) {
        if let Some(serving) = &mut self.serving {
            let current = !matches!(request, Request::Lead { .. }) || is_current(&serving.term);
            let event = coordinator::Event::Received { link: Link::LOCAL, request, term_is_current: current };
            serving.machine.handle(now, event);
            // Nothing says `written` here: a leader in the coordinator's process is told by the acknowledgement. If it were told now and
            // ended its process, the outcome would go with it before the joiners' sockets have it.
        } else if let Some(uplink) = &mut self.uplink {
            let id = request.id();
            let refused = !matches!(request, Request::Land { .. });
            let mut too_long = false;
            let queued = uplink.connection.queue(&request.encode()).or_else(|error| {
                tracing::error!(%error, "a request is longer than the coordinator takes");
                too_long = true;
                // A flight must end: its joiners hear why.
                uplink.connection.queue(&too_large(request, &error).encode())
            });
            match queued {
                Ok(position) => uplink.landings.extend(written.map(|entry| (position, entry))),
                Err(error) => tracing::error!(%error, "a request cannot be sent"),
            }
            effects.touch(&uplink.connection, written.is_some());
            if too_long && refused {
                // Nobody else answers it.
                let response = Response::Rejected { id, reason: Rejection::TooLong };
                self.client.handle(now, client::Event::Received(response));
            }
        }
    }

    fn act_for_coordinator(&mut self, now: Time, action: coordinator::Action, effects: &mut Effects) {
        let Some(serving) = &mut self.serving else { return };
        match action {
            coordinator::Action::Send { link: Link::LOCAL, response, delivery } => {
                self.client.handle(now, client::Event::Received(response));
                if let (Some(delivery), Some(serving)) = (delivery, &mut self.serving) {
                    serving.machine.handle(now, coordinator::Event::Delivered { link: Link::LOCAL, delivery });
                }
            }
            coordinator::Action::Send { link, response, delivery } => {
                let Some(peer) = serving.peers.get_mut(&link) else { return };
                let queued = peer.connection.queue(&response.encode()).or_else(|error| {
                    tracing::error!(%error, "a response is longer than its client takes");
                    let Response::Landed { id, token, .. } = response else { return Err(error) };
                    let outcome = outcome_of_too_large(&error);
                    peer.connection.queue(&Response::Landed { id, token, outcome }.encode())
                });
                match (queued, delivery) {
                    (Ok(position), Some(delivery)) => peer.deliveries.push_back((position, delivery)),
                    // It never will be: the landing must not wait for it.
                    (Err(_), Some(delivery)) => {
                        serving.machine.handle(now, coordinator::Event::Delivered { link, delivery });
                        return;
                    }
                    _ => {}
                }
                effects.touch(&peer.connection, delivery.is_some());
            }
            coordinator::Action::Close { link, reason } => {
                let Some(peer) = serving.peers.get(&link) else { return };
                tracing::info!(?reason, pid = ?peer.connection.peer().pid, "closing the connection of a client");
                effects.list.push(Effect::Close(peer.connection.clone()));
            }
            coordinator::Action::ReadDry { link, ticket } => {
                let peer = link.map(|link| serving.peers.get(&link).map(|peer| peer.connection.id()));
                match peer {
                    // It has ended, and all that it had received was handled before.
                    Some(None) => serving.machine.handle(now, coordinator::Event::Dry { ticket }),
                    Some(Some(connection)) => self.errands.push(Errand::ReadDry(Some(connection), ticket)),
                    None => self.errands.push(Errand::ReadDry(None, ticket)),
                }
            }
            coordinator::Action::Probe { key } => {
                let look = self.key_locks.look(key.as_bytes());
                let free = matches!(look, Ok(Some(_)));
                if let Err(error) = &look {
                    tracing::warn!(%key, %error, "could not look at a key lock");
                }
                serving.machine.handle(now, coordinator::Event::Probed { key, free });
                // Only now: what the machine noted, it noted while nobody else could hold the lock.
                drop(look);
            }
            coordinator::Action::Resign { reason } => {
                tracing::warn!(?reason, epoch = %serving.machine.epoch(), "the coordinator resigns");
                self.errands.push(Errand::Resign);
            }
        }
    }

    pub(super) fn coordinator_pid(&self) -> Option<u32> {
        match &self.phase {
            Phase::NotAnswering { pid, .. } | Phase::Connected { pid, .. } => *pid,
            Phase::Serving { .. } => Some(std::process::id()),
            _ => None,
        }
    }

    fn waiting_for(&self, waited_for: &WaitedFor, now: Time) -> WaitingFor {
        match waited_for {
            WaitedFor::Flight(flight) => WaitingFor::Flight(Joined::of(flight, now)),
            WaitedFor::KeyLock => WaitingFor::KeyLock,
            WaitedFor::Coordinator => {
                let state = self.describe_obstacle("has not granted the key yet");
                WaitingFor::Coordinator { pid: self.coordinator_pid(), state }
            }
        }
    }

    /// Why the coordinator keeps somebody waiting: `missing`, unless it is known that it keeps everybody waiting.
    pub(super) fn describe_obstacle(&self, missing: &'static str) -> &'static str {
        match &self.phase {
            Phase::Connected { .. } if self.silent_since.is_none() => missing,
            _ => self.describe_phase(),
        }
    }

    /// What is known of the coordinator, in words.
    pub(super) fn describe_phase(&self) -> &'static str {
        match &self.phase {
            Phase::Idle => "is not looked for",
            Phase::Connecting => "is being looked for",
            Phase::NotAnswering { .. } => {
                "holds its lock and does not answer: it is frozen or overloaded, and goes on when it can"
            }
            Phase::LockHeldWithoutSocket { .. } => {
                "cannot be reached: something holds flight.lock and does not serve; it goes on when that process ends"
            }
            Phase::BackingOff { .. } => "could not be reached or elected: the attempt failed and will be repeated",
            Phase::Connected { .. } if self.silent_since.is_some() => {
                "is connected and does not answer: it is frozen or overloaded, and goes on when it can"
            }
            Phase::Connected { .. } => "answers",
            Phase::Serving { .. } => "is this process",
            _ => "is not known",
        }
    }
}

/// What reaches the joiners instead of an outcome that does not fit into a frame.
fn outcome_of_too_large(error: &FrameError) -> Outcome {
    Outcome::failure(&Failure::new(Failure::TOO_LARGE, error.to_string()))
}

/// What is said instead of a request that is too long: of a landing, that it was; of another one, that its caller left.
fn too_large(request: Request, error: &FrameError) -> Request {
    match request {
        Request::Land { id, key, token, .. } => Request::Land { id, key, token, outcome: outcome_of_too_large(error) },
        other => Request::Cancel { id: other.id() },
    }
}

/// Whether the term's lock is still at its path. What cannot be seen is no reason to grant.
pub(super) fn is_current(term: &flight_connection::Term) -> bool {
    term.is_current().unwrap_or(false)
}
