//! The connection to the process that serves.

use std::time::Instant;

use flight_fencing::Epoch;

use super::Supervisor;
use super::channel::Stage;
use super::event::{DisconnectReason, Event};
use super::role::Role;
use super::seeking::Seeking;
use crate::connection::ConnectionId;
use crate::error::AttemptError;
use crate::frame::Frame;
use crate::handshake::{HandshakeError, Hello};
use crate::socket::{self, Occupant, Socket};

/// Connected, and the server has not said hello. That is no answer yet: the kernel connects us to a stopped process as well.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) id: ConnectionId,
    pub(super) pid: Option<u32>,
    pub(super) since: Instant,
    /// Whether the phase says that it does not answer.
    pub(super) is_reported: bool,
    /// Whose socket had the name before we connected.
    occupant: Option<Occupant>,
    /// To go on with if nothing comes of it.
    seeking: Seeking,
}

/// Connected, and both have said hello.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) id: ConnectionId,
    pub(super) pid: Option<u32>,
    pub(super) epoch: Epoch,
}

impl Supervisor {
    /// Says hello to the process that serves. The role that it leads to.
    pub(super) fn greet_server(
        &mut self,
        mut seeking: Seeking,
        socket: Socket,
        occupant: Option<Occupant>,
        now: Instant,
    ) -> Role {
        let credentials = match socket.credentials() {
            Ok(credentials) => credentials,
            // It has gone already.
            Err(error) if error.kind() == std::io::ErrorKind::NotConnected => {
                seeking.again(now, None);
                return Role::Seeking(seeking);
            }
            Err(source) => {
                let error = AttemptError::Connect { path: self.address.path(), source };
                return self.attempt_failed(seeking, error, now);
            }
        };
        if !credentials.trusted {
            let error =
                AttemptError::OtherUser { path: self.address.path(), uid: credentials.uid, ours: socket::our_user() };
            return self.attempt_failed(seeking, error, now);
        }
        // No limit: what waits are our own callers' values, and a new connection would have to be given the same again.
        let id = self.open_channel(socket, credentials, usize::MAX);
        let hello = self.hello(self.seen.unwrap_or(Epoch::MIN));
        if let Some(channel) = self.channels.get(&id) {
            channel.greet(&hello);
        }
        Role::Greeting(Greeting { id, pid: credentials.pid, since: now, is_reported: false, occupant, seeking })
    }

    /// The process that serves has answered.
    pub(super) fn server_said_hello(&mut self, id: ConnectionId, frame: &Frame, now: Instant) {
        let ours = self.hello(self.seen.unwrap_or(Epoch::MIN));
        let agreed = Hello::read(frame, &ours).and_then(|theirs| match self.seen {
            Some(seen) if seen > theirs.epoch => Err(HandshakeError::StaleTerm { seen, theirs: theirs.epoch }),
            _ => Ok(theirs),
        });
        let Role::Greeting(greeting) = std::mem::replace(&mut self.role, Role::Idle) else { return };
        match agreed {
            Ok(hello) => {
                let Some(channel) = self.channels.get_mut(&id) else { return };
                channel.stage = Stage::Open;
                let (pid, epoch) = (greeting.pid, hello.epoch);
                tracing::info!(connection = %id, ?pid, %epoch, software = hello.software, "connected");
                self.events.push_back(Event::Connected(channel.connection(hello)));
                self.set_deadline(id, None);
                self.saw(epoch);
                self.role = Role::Connected(Upstream { id, pid, epoch });
            }
            // We have reached the new directory by the path of the old one. The next attempt opens it.
            Err(HandshakeError::OtherDirectory { .. }) if matches!(self.directory.is_current(), Ok(false)) => {
                self.end_channel(id, DisconnectReason::Closed, now);
                let mut seeking = greeting.seeking;
                seeking.again(now, None);
                self.role = Role::Seeking(seeking);
            }
            Err(source) => {
                self.end_channel(id, DisconnectReason::Closed, now);
                let error = AttemptError::Handshake { path: self.address.path(), source };
                self.role = self.attempt_failed(greeting.seeking, error, now);
            }
        }
    }

    /// A connection has ended: if it was that to the process that serves, look for the next one.
    pub(super) fn upstream_ended(&mut self, id: ConnectionId, now: Instant) {
        match std::mem::replace(&mut self.role, Role::Idle) {
            // The death of a process frees the lock before it closes the connection's other end for us to see, or just after. So the
            // first attempt is made at once. If it is not wanted, it stays idle.
            Role::Connected(upstream) if upstream.id == id => self.role = Role::Seeking(Seeking::new(now)),
            // Nobody has answered: it ended while we were in its queue.
            Role::Greeting(Greeting { id: greeted, mut seeking, .. }) if greeted == id => {
                seeking.again(now, None);
                self.role = Role::Seeking(seeking);
            }
            other => self.role = other,
        }
    }

    /// Looks whether the process that serves does so where others look for it.
    pub(super) fn check_upstream(&mut self, now: Instant) {
        let moved = matches!(self.directory.is_current(), Ok(false));
        match &self.role {
            Role::Connected(Upstream { id, .. }) if moved => {
                let id = *id;
                self.end_channel(id, DisconnectReason::DirectoryReplaced, now);
            }
            // It has said nothing, and another one has its place: it may be stopped for ever, and the lock not its own any more.
            Role::Greeting(Greeting { id, occupant, .. }) => {
                let (id, occupant) = (*id, *occupant);
                let replaced = socket::occupant(&self.address).is_ok_and(|now| now.is_some() && now != occupant);
                if moved || replaced {
                    self.end_channel(id, DisconnectReason::DirectoryReplaced, now);
                }
            }
            _ => {}
        }
    }

    /// Remembers that the phase says it, so that it need not be looked at again.
    pub(super) fn note_silence(&mut self, now: Instant) {
        if let Role::Greeting(greeting) = &mut self.role {
            greeting.is_reported = now.saturating_duration_since(greeting.since) >= self.options.patience;
        }
    }
}
