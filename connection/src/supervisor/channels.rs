//! All connections: whose turn it is, what was read, and what ends them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Supervisor;
use super::channel::{Channel, GRACE, Reading, Stage};
use super::event::{DisconnectReason, Event};
use super::role::Role;
use crate::attention::{Bell, Source};
use crate::connection::ConnectionId;
use crate::frame::Frame;
use crate::socket::{Credentials, Socket};

/// How late a timer must be to count as one of a process that was stopped.
const STOPPED: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Writes and reads what one connection has, within one turn's bounds.
    pub(super) fn look_at(&mut self, id: ConnectionId, now: Instant) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.bell.heard();
        let progress = channel.write();
        if channel.has_overflown() {
            channel.link.close();
        }
        if let Some(written) = progress.filter(|_| channel.stage == Stage::Open) {
            self.events.push_back(Event::Written(id, written));
        }
        if channel.is_failing() && channel.deadline.is_none() {
            self.set_deadline(id, Some(now + GRACE));
        }
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if channel.is_readable() {
            match self.read(id, now) {
                // The others have their turn first.
                Some(Reading::More(_)) => {
                    if let Some(channel) = self.channels.get(&id) {
                        channel.bell.ring();
                    }
                }
                // Once more, so that tokio has our waker.
                Some(Reading::Dry) => self.listen_to(id),
                Some(Reading::End(_)) | None => {}
            }
        }
    }

    /// Makes sure that the bell rings when there is something to read.
    pub(super) fn listen_to(&mut self, id: ConnectionId) {
        if let Some(channel) = self.channels.get_mut(&id)
            && channel.is_readable()
        {
            channel.bell.ring();
        }
    }

    /// Reads once, and passes on what there was. `None`: there is no such connection any more.
    pub(super) fn read(&mut self, id: ConnectionId, now: Instant) -> Option<Reading> {
        let mut frames = Vec::new();
        let channel = self.channels.get_mut(&id)?;
        let reading = channel.read(&mut self.scratch, &mut frames);
        for frame in frames {
            self.received(id, frame, now);
        }
        if let Reading::End(reason) = reading {
            self.end_channel(id, reason, now);
            return None;
        }
        Some(reading)
    }

    pub(super) fn received(&mut self, id: ConnectionId, frame: Frame, now: Instant) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        match (channel.stage, &self.role) {
            (Stage::Open, _) => {
                self.events.push_back(Event::Frame(id, frame));
            }
            (Stage::Greeting, Role::Serving(_)) => self.client_said_hello(id, &frame, now),
            (Stage::Greeting, _) => self.server_said_hello(id, &frame, now),
        }
    }

    /// Begins to talk to whoever is at the other end.
    pub(super) fn open_channel(
        &mut self,
        socket: Socket,
        credentials: Credentials,
        max_backlog: usize,
    ) -> ConnectionId {
        let id = ConnectionId::next();
        let bell = Bell::new(Source::Connection(id), Arc::clone(&self.attention));
        let channel = Channel::new(socket, credentials, id, bell, self.options.max_frame, max_backlog);
        // The first look registers the waker.
        channel.bell.ring();
        self.channels.insert(id, channel);
        id
    }

    pub(super) fn set_deadline(&mut self, id: ConnectionId, deadline: Option<Instant>) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let before = std::mem::replace(&mut channel.deadline, deadline);
        if let Some(before) = before {
            self.deadlines.remove(&(before, id));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
    }

    /// Ends one connection, and does what follows for the role.
    pub(super) fn end_channel(&mut self, id: ConnectionId, reason: DisconnectReason, now: Instant) {
        self.set_deadline(id, None);
        let Some(channel) = self.channels.remove(&id) else { return };
        channel.link.end();
        tracing::debug!(connection = %id, pid = ?channel.credentials.pid, %reason, "a connection is over");
        if channel.stage == Stage::Open {
            self.events.push_back(Event::Disconnected(id, reason));
        }
        self.upstream_ended(id, now);
    }

    /// Ends all connections, without regard to the role.
    pub(super) fn end_channels(&mut self, reason: impl Fn() -> DisconnectReason) {
        self.deadlines.clear();
        for (id, channel) in std::mem::take(&mut self.channels) {
            channel.link.end();
            if channel.stage == Stage::Open {
                self.events.push_back(Event::Disconnected(id, reason()));
            }
        }
    }

    pub(super) fn run_deadlines(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            // What it said in the last moment counts.
            self.read(id, now);
            if self.channels.get(&id).is_none_or(|channel| channel.deadline != Some(deadline)) {
                self.deadlines.remove(&(deadline, id));
                continue;
            }
            if now - deadline > STOPPED {
                // This process was stopped, and perhaps its peer too. Begin to count again.
                self.set_deadline(id, Some(now + self.options.hello_timeout));
                continue;
            }
            if let Some(channel) = self.channels.get_mut(&id) {
                let reason = channel.timed_out();
                self.end_channel(id, reason, now);
            }
        }
    }
}
