//! To read everything that has been received already.

use std::time::Instant;

use super::Supervisor;
use super::channel::Reading;
use super::event::Event;
use super::role::Role;
use crate::connection::ConnectionId;
use crate::socket;

/// A reading that was asked for.
#[derive(Debug)]
pub(super) struct DryRead {
    which: Option<ConnectionId>,
    ticket: u64,
    /// How often the runtime has looked at its sockets since anything was found.
    quiet: u32,
}

impl Supervisor {
    /// Reads everything that the kernel has received on this connection, and gives it out as events; then comes
    /// [`Event::Dry`] with the ticket. Without a connection: on all, after accepting whoever waits to be.
    ///
    /// So whoever learns in another way that a process has ended, or that a call has returned, hears first what it has said before.
    /// The runtime's readiness does not tell that: it may lag behind the kernel.
    ///
    /// It is done when the events that are waiting now were taken. A peer that goes on sending does not prolong it.
    pub fn read_dry(&mut self, which: Option<ConnectionId>, ticket: u64) {
        self.dry.push_back(DryRead { which, ticket, quiet: 0 });
    }

    /// True: the runtime must look at its sockets before this can be finished.
    pub(super) fn read_dry_now(&mut self, now: Instant) -> bool {
        while let Some(mut read) = self.dry.pop_front() {
            let mut found = false;
            match read.which {
                Some(id) => found |= self.read_channel_dry(id, now),
                None => {
                    if matches!(self.role, Role::Serving(_)) {
                        self.accept_all(now);
                    }
                    let ids: Vec<_> = self.channels.keys().copied().collect();
                    for id in ids {
                        found |= self.read_channel_dry(id, now);
                    }
                }
            }
            read.quiet = if found { 0 } else { read.quiet + 1 };
            if read.quiet < socket::PASSES_UNTIL_DRY && self.has_channel(&read) {
                self.dry.push_front(read);
                return true;
            }
            self.events.push_back(Event::Dry(read.ticket));
        }
        false
    }

    fn has_channel(&self, read: &DryRead) -> bool {
        read.which.map_or(!self.channels.is_empty(), |id| self.channels.contains_key(&id))
    }

    /// Whether there was anything.
    fn read_channel_dry(&mut self, id: ConnectionId, now: Instant) -> bool {
        let Some(socket) = self.channels.get(&id).and_then(|channel| channel.link.socket()) else { return false };
        // What is there now. A peer that sends faster than we read would keep us here for ever.
        let mut left = socket.receivable().unwrap_or(0);
        let mut found = false;
        // One reading more than that, for the end of file, which has no bytes.
        while let Some(Reading::More(count)) = self.read(id, now) {
            found = true;
            if left == 0 {
                break;
            }
            left = left.saturating_sub(count as u64);
        }
        self.listen_to(id);
        found
    }
}
