//! What the driver keeps under its one lock: the machines, and what their numbers stand for.

use super::slot::{SharedError, Slot};
use crate::client::{CallId, Client, ErrorId, OwnerId};
use crate::coordinator::{Coordinator, Link, Time};
use crate::protocol::RequestId;
use crate::status::StatusReport;
use flight_connection::{Connection, ConnectionId, Phase, Term, Written};
use flight_key_lock::{KeyLock, KeyLocks, LocalDirectory};
use flight_lease::LeaseController;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) struct State {
    pub(super) client: Client,
    /// While this process serves.
    pub(super) serving: Option<Serving>,
    /// While another process serves, and we are connected to it.
    pub(super) uplink: Option<Uplink>,
    pub(super) key_locks: KeyLocks,
    /// Where the key locks are.
    pub(super) directory: LocalDirectory,
    /// The key locks of the entries that hold one.
    pub(super) locks: HashMap<RequestId, Arc<KeyLock>>,
    pub(super) leases: HashMap<RequestId, Arc<LeaseController>>,
    pub(super) slots: HashMap<CallId, Arc<Slot>>,
    /// The errors of this turn.
    pub(super) errors: BTreeMap<ErrorId, SharedError>,
    pub(super) owners: BTreeMap<OwnerId, Owner>,
    pub(super) closers: BTreeMap<OwnerId, oneshot::Sender<()>>,
    pub(super) askers: BTreeMap<u64, oneshot::Sender<Option<StatusReport>>>,
    pub(super) phase: Phase,
    /// Since when the connected coordinator does not answer.
    pub(super) silent_since: Option<Time>,
    /// What only the service thread can do.
    pub(super) errands: Vec<Errand>,
    /// When the service thread wakes by itself. `None`: it is awake and will look.
    pub(super) armed: Option<Time>,
    /// The thread ends, or has ended: no handle may be added.
    pub(super) stopping: bool,
    pub(super) next_number: u64,
}

pub(super) struct Serving {
    pub(super) machine: Coordinator,
    pub(super) term: Term,
    pub(super) peers: BTreeMap<Link, Peer>,
    pub(super) links: HashMap<ConnectionId, Link>,
}

/// A client of this coordinator.
pub(super) struct Peer {
    pub(super) connection: Connection,
    /// Up to which position the socket must have taken, for which delivery.
    pub(super) deliveries: VecDeque<(u64, u64)>,
    /// Bytes waited when it was last looked at.
    pub(super) backlogged: bool,
    /// How many bytes the kernel had taken then.
    pub(super) taken: u64,
}

pub(super) struct Uplink {
    pub(super) connection: Connection,
    /// Up to which position the socket must have taken, for which entry's landing.
    pub(super) landings: VecDeque<(u64, RequestId)>,
}

/// A handle of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Open,
    /// Dropped without a close: the service goes on until nothing of it is left.
    Dropped,
}

/// What only the service thread can do.
pub(super) enum Errand {
    /// Read what was received, then say `Dry`.
    ReadDry(Option<ConnectionId>, u64),
    /// End the term.
    Resign,
}

impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// When the machines want to be woken.
    pub(super) fn timeout(&self) -> Option<Time> {
        let coordinator = self.serving.as_ref().and_then(|serving| serving.machine.poll_timeout());
        [self.client.poll_timeout(), coordinator].into_iter().flatten().min()
    }

    /// Nobody uses the service any more, and nothing of those who did is under way.
    pub(super) fn is_unused(&self) -> bool {
        let dropped = self.owners.values().all(|owner| *owner == Owner::Dropped);
        dropped && (self.owners.is_empty() || self.client.entries() == 0)
    }

    /// What the kernel has taken of a connection's bytes: tells the machines what they wait for.
    pub(super) fn settle(&mut self, now: Time, connection: ConnectionId, written: Written) {
        if let Some(uplink) = self.uplink.as_mut().filter(|uplink| uplink.connection.id() == connection) {
            let mut taken = Vec::new();
            while let Some((_, entry)) = uplink.landings.pop_front_if(|(position, _)| *position <= written.position) {
                taken.push(entry);
            }
            for entry in taken {
                self.client.handle(now, crate::client::Event::LandWritten { entry });
            }
            if written.backlog > 0 {
                self.client.handle(now, crate::client::Event::Progress);
            }
            return;
        }
        let Some(serving) = self.serving.as_mut() else { return };
        let Some(link) = serving.links.get(&connection).copied() else { return };
        let Some(peer) = serving.peers.get_mut(&link) else { return };
        if written.position < peer.taken {
            // Another thread has seen more meanwhile. What it left waiting was taken since.
            return;
        }
        let mut delivered = Vec::new();
        while let Some((_, delivery)) = peer.deliveries.pop_front_if(|(position, _)| *position <= written.position) {
            delivered.push(delivery);
        }
        if written.backlog > 0 || peer.backlogged {
            peer.backlogged = written.backlog > 0;
            let event = crate::coordinator::Event::Backlog { link, bytes: written.backlog, written: written.position };
            serving.machine.handle(now, event);
        }
        // A landing of our own, which waits for its acknowledgement, is not stuck while a joiner reads.
        let progress = written.position > std::mem::replace(&mut peer.taken, written.position);
        if progress && written.backlog > 0 {
            self.client.handle(now, crate::client::Event::Progress);
        }
        for delivery in delivered {
            serving.machine.handle(now, crate::coordinator::Event::Delivered { link, delivery });
        }
    }
}
