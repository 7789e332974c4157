//! Steps 1 to 3 of every attempt: to look at the directory, to connect, and if nobody listens, to campaign.

use std::time::{Duration, Instant};

use flight_election::{CampaignError, Election};
use flight_key_lock::LocalDirectory;

use super::Supervisor;
use super::event::{DisconnectReason, Event};
use super::role::Role;
use crate::backoff::Backoff;
use crate::error::AttemptError;
use crate::socket::{self, Address, NoConnection};

/// The waits between attempts while somebody else is on the way: short, since a new process listens within milliseconds of the death of
/// the old one, and an attempt costs a few system calls.
const RETRY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The waits after a failure, in which all processes of the directory probably share.
const FAILURE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The search for who serves.
#[derive(Debug)]
pub(super) struct Seeking {
    /// When the next attempt is made.
    pub(super) next: Instant,
    /// What the last attempt found.
    pub(super) obstacle: Option<Obstacle>,
    retry: Backoff,
    failure: Backoff,
    /// Whether a socket can be made in this directory.
    rehearsed: bool,
}

/// What keeps us from being connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Somebody listens, and its queue is full.
    Full { since: Instant },
    /// Somebody holds the lock, and nobody listens.
    LockHeld { since: Instant },
    /// The attempt failed.
    Failed { until: Instant },
}

impl Seeking {
    pub(super) fn new(next: Instant) -> Seeking {
        let backoff = |(first, limit)| Backoff::new(first, limit);
        Seeking { next, obstacle: None, retry: backoff(RETRY), failure: backoff(FAILURE), rehearsed: false }
    }

    /// Somebody else is on the way: again soon.
    pub(super) fn again(&mut self, now: Instant, obstacle: Option<Obstacle>) {
        self.next = now + self.retry.draw();
        self.obstacle = obstacle;
    }

    /// Somebody listens whose queue is full.
    fn full(&mut self, now: Instant) {
        let since = if let Some(Obstacle::Full { since }) = self.obstacle { since } else { now };
        self.again(now, Some(Obstacle::Full { since }));
    }

    fn lock_held(&mut self, now: Instant) {
        let since = if let Some(Obstacle::LockHeld { since }) = self.obstacle { since } else { now };
        self.again(now, Some(Obstacle::LockHeld { since }));
    }

    fn failed(&mut self, now: Instant, error: &AttemptError) {
        let wait = if error.is_fatal() { self.failure.draw_longest() } else { self.failure.draw() };
        if matches!(error, AttemptError::Serve { .. }) {
            // Otherwise each attempt would count an epoch.
            self.rehearsed = false;
        }
        self.next = now + wait;
        self.obstacle = Some(Obstacle::Failed { until: self.next });
    }
}

impl Supervisor {
    /// Begins or goes on to seek, if it is wanted and due.
    pub(super) fn seek(&mut self, now: Instant) {
        let wanted = self.attention.is_wanted();
        match &self.role {
            Role::Idle if wanted => self.role = Role::Seeking(Seeking::new(now)),
            Role::Seeking(_) if !wanted => self.role = Role::Idle,
            Role::Greeting(greeting) if !wanted => {
                let id = greeting.id;
                self.role = Role::Idle;
                self.end_channel(id, DisconnectReason::Closed, now);
            }
            _ => {}
        }
        if !matches!(&self.role, Role::Seeking(seeking) if seeking.next <= now) {
            return;
        }
        let Role::Seeking(seeking) = std::mem::replace(&mut self.role, Role::Idle) else { return };
        self.role = self.attempt(seeking, now);
    }

    /// One attempt. The role that it leads to.
    fn attempt(&mut self, mut seeking: Seeking, now: Instant) -> Role {
        if let Err(error) = self.follow_path(&mut seeking) {
            return self.attempt_failed(seeking, error, now);
        }
        // Before the connection: if another socket takes the name meanwhile, we notice later that ours has not got it.
        let occupant = socket::occupant(&self.address).ok().flatten();
        match socket::connect(&self.address) {
            Ok(socket) => self.greet_server(seeking, socket, occupant, now),
            // It is alive, so that the lock is none of our business.
            Err(NoConnection::Full) => {
                seeking.full(now);
                Role::Seeking(seeking)
            }
            Err(NoConnection::Nobody) => self.campaign(seeking, now),
            Err(NoConnection::Failed(source)) => {
                let error = AttemptError::Connect { path: self.address.path(), source };
                self.attempt_failed(seeking, error, now)
            }
        }
    }

    /// Goes on with the directory that is now at the path, if it is another one.
    fn follow_path(&mut self, seeking: &mut Seeking) -> Result<(), AttemptError> {
        // What cannot be seen is no difference; the steps that follow say what is wrong.
        if self.directory.is_current().unwrap_or(true) {
            return Ok(());
        }
        let path = self.directory.path().to_owned();
        let directory =
            LocalDirectory::open(&path).map_err(|source| AttemptError::Directory { path: path.clone(), source })?;
        self.address = Address::of(&directory).map_err(AttemptError::Address)?;
        tracing::warn!(directory = %path.display(), "the directory was removed or replaced; going on with the new one");
        self.directory = directory.clone();
        seeking.rehearsed = false;
        self.events.push_back(Event::DirectoryReplaced(directory));
        Ok(())
    }

    fn campaign(&mut self, mut seeking: Seeking, now: Instant) -> Role {
        if !seeking.rehearsed {
            if let Err(error) = socket::rehearse(&self.address) {
                return self.attempt_failed(seeking, error, now);
            }
            seeking.rehearsed = true;
        }
        let mut election = Election::new(self.directory.clone());
        if let Some(seen) = self.seen {
            election.see(seen);
        }
        match election.try_campaign() {
            Ok(Some(leadership)) => match self.serve(leadership) {
                Ok(serving) => Role::Serving(serving),
                Err(error) => self.attempt_failed(seeking, error, now),
            },
            // Who holds it will listen soon. To connect again is the next attempt.
            Ok(None) => {
                seeking.lock_held(now);
                Role::Seeking(seeking)
            }
            // Between our look and its own.
            Err(CampaignError::DirectoryReplaced { .. }) => {
                seeking.again(now, None);
                Role::Seeking(seeking)
            }
            Err(error) => self.attempt_failed(seeking, AttemptError::Campaign(error), now),
        }
    }

    /// Tells of the failure, and when it is tried again.
    pub(super) fn attempt_failed(&mut self, mut seeking: Seeking, error: AttemptError, now: Instant) -> Role {
        tracing::debug!(%error, "an attempt to connect or to serve failed");
        seeking.failed(now, &error);
        self.events.push_back(Event::Failed(error));
        Role::Seeking(seeking)
    }
}
