//! The one who keeps a process connected to the process that serves, or makes it that process.
//!
//! Invariants:
//! 1. Everything happens in [`Supervisor::turn`], on the owner's thread, and it waits only in [`Supervisor::wait`]. So there are no
//!    tasks that outlive it, and dropping the future of `next` loses nothing.
//! 2. A turn is made only when all events were taken. So the queue is bounded by what one turn brings.
//! 3. A term ends in this order: grants stop, the listener and the connections close, the lock is released.
//! 4. Time elects nobody. It only says when to try the lock again, and what to call the wait.

mod channel;
mod dry;
pub(crate) mod event;
pub(crate) mod options;
pub(crate) mod phase;
mod seeking;
mod serving;
pub(crate) mod term;
mod upstream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flight_fencing::Epoch;
use flight_key_lock::LocalDirectory;

use self::channel::{CHUNK, Channel, GRACE, Reading, Stage};
use self::dry::DryRead;
use self::event::{DeposedReason, DisconnectReason, Event};
use self::options::Options;
use self::phase::Phase;
use self::seeking::{Obstacle, Seeking};
use self::serving::Serving;
use self::upstream::{Greeting, Upstream};
use crate::attention::{Attention, Bell, Source};
use crate::connection::ConnectionId;
use crate::error::AddressError;
use crate::frame::Frame;
use crate::handshake::Hello;
use crate::socket::{Address, Credentials, Socket};

/// How often it is looked whether the lock, the directory and the socket are still ours.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// How late a timer must be to count as one of a process that was stopped.
const STOPPED: Duration = Duration::from_secs(1);

/// How long a close waits for peers to take what was queued for them.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Connects the processes that name one directory to the one of them that serves, or makes this process the one.
///
/// The owner says whether it [wants](Supervisor::want) that, takes [`next`](Supervisor::next) in a loop, and hears everything as an
/// [`Event`]. The supervisor decides all that can be decided without knowing what the frames mean:
///
/// 1. It connects. If nobody listens it campaigns, if somebody else holds the lock it connects again, and so on, until it is
///    connected or serves. However long somebody holds the lock without answering, it is never robbed of it.
/// 2. When the connection ends and it is still wanted, it begins again at once. An idle process stays as it is.
/// 3. While it serves it accepts, and looks each second whether it is still alone and can still be found.
///
/// It works on the thread that polls `next`, which has to belong to a tokio runtime with its I/O driver and its timer. A few steps
/// there block for as long as the disk needs: those of a campaign that is won.
///
/// ```
/// use flight_connection::{Event, Frame, Options, Supervisor};
/// use flight_key_lock::LocalDirectory;
///
/// # let folder = tempfile::tempdir()?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let mut supervisor = Supervisor::new(LocalDirectory::open(folder.path())?, Options::new(1, "example 1.0"))?;
/// supervisor.want(true);
/// loop {
///     match supervisor.next().await {
///         Event::Elected(term) => {
///             println!("this process serves, in the term {}", term.epoch());
/// #           break;
///         }
///         Event::Connected(connection) => {
///             println!("process {:?} serves", connection.peer().pid);
///             connection.queue(&Frame::new(r#"{"hello":"world"}"#, "and bytes"))?;
///             connection.flush();
///         }
///         Event::Frame(from, frame) => println!("{from} says {:?}", frame.header),
///         other => println!("{other:?}"),
///     }
/// }
/// supervisor.close().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Drop
///
/// Dropping it closes everything and releases the lock, in the right order, but does not wait for peers to take what is queued. In a
/// forked child it does nothing: what it holds is the parent's.
pub struct Supervisor {
    options: Options,
    address: Address,
    directory: LocalDirectory,
    attention: Arc<Attention>,
    events: VecDeque<Event>,
    channels: BTreeMap<ConnectionId, Channel>,
    /// The deadlines of the channels.
    deadlines: BTreeSet<(Instant, ConnectionId)>,
    role: Role,
    /// What was asked to be read dry.
    dry: VecDeque<DryRead>,
    /// The highest epoch seen, of whomever.
    seen: Option<Epoch>,
    phase: Phase,
    next_check: Option<Instant>,
    scratch: Vec<u8>,
    /// The process that made it.
    pid: u32,
}

/// What the supervisor is, in the directory.
enum Role {
    Idle,
    Seeking(Seeking),
    Greeting(Greeting),
    Connected(Upstream),
    Serving(Serving),
    Closed,
}

/// Says what is wanted of a [`Supervisor`], from any thread. Clones speak to the same one.
#[derive(Clone, Debug)]
pub struct SupervisorHandle {
    attention: Arc<Attention>,
}

impl SupervisorHandle {
    /// See [`Supervisor::want`]. Takes effect when the owner polls [`Supervisor::next`], which is woken.
    pub fn want(&self, wanted: bool) {
        self.attention.want(wanted);
    }
}

impl Supervisor {
    /// A supervisor for `directory`, idle until it is [wanted](Supervisor::want). It needs no runtime yet, and touches nothing in the
    /// directory.
    ///
    /// # Errors
    ///
    /// [`AddressError`] when the path of the directory leaves no room for a socket. On Linux it hardly ever happens: a longer path
    /// than a socket may have is reached through `/proc`.
    pub fn new(directory: LocalDirectory, options: Options) -> Result<Supervisor, AddressError> {
        Ok(Supervisor {
            address: Address::of(&directory)?,
            options,
            directory,
            attention: Attention::new(),
            events: VecDeque::new(),
            channels: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            role: Role::Idle,
            dry: VecDeque::new(),
            seen: None,
            phase: Phase::Idle,
            next_check: None,
            scratch: vec![0; CHUNK],
            pid: std::process::id(),
        })
    }

    /// Whether a connection, or a term, is wanted. Without it nothing is begun; what is there stays: a connection until it ends, a term
    /// until it is [resigned](Supervisor::resign) or lost.
    pub fn want(&mut self, wanted: bool) {
        self.attention.want(wanted);
    }

    /// A handle for other threads.
    #[must_use]
    pub fn handle(&self) -> SupervisorHandle {
        SupervisorHandle { attention: Arc::clone(&self.attention) }
    }

    /// The directory, as it is now: another one after [`Event::DirectoryReplaced`].
    #[must_use]
    pub fn directory(&self) -> &LocalDirectory {
        &self.directory
    }

    /// What it is about.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether this process serves and is still alone. See [`Term::is_current`](crate::Term::is_current).
    ///
    /// # Errors
    ///
    /// When the file system cannot be asked.
    pub fn term_is_current(&self) -> io::Result<bool> {
        match &self.role {
            Role::Serving(serving) => serving.term.is_current(),
            _ => Ok(false),
        }
    }

    /// The next thing that happened. It waits for as long as nothing does.
    ///
    /// # Cancellation
    ///
    /// Nothing is lost when the future is dropped: use it in `select!` freely.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, or in one without I/O or time.
    pub async fn next(&mut self) -> Event {
        loop {
            // Events can come without end and without a wait. The runtime has to look at its sockets and timers now and then.
            tokio::task::consume_budget().await;
            if let Some(event) = self.take_event() {
                return event;
            }
            let passes = self.turn(Instant::now());
            if !self.events.is_empty() {
                continue;
            }
            if passes {
                tokio::task::yield_now().await;
            } else {
                self.wait().await;
            }
        }
    }

    /// Ends this process's term, if it has one: [`Event::Deposed`] tells that it is over. If it is still wanted, it looks for the next
    /// process that serves, which may be this one again.
    pub fn resign(&mut self) {
        self.depose(DeposedReason::Resigned, Instant::now());
    }

    /// Closes everything. Waits for a moment (250 ms at most) for the peers to take what is queued for them, and releases the lock
    /// last.
    ///
    /// # Cancellation
    ///
    /// Dropping the future is like dropping the supervisor.
    pub async fn close(mut self) {
        self.attention.want(false);
        // First of all: the clones of the term must hear it before anybody else can be elected.
        let (leadership, listener) = match std::mem::replace(&mut self.role, Role::Closed) {
            Role::Serving(serving) => (serving.term.end(), Some(serving.listener)),
            _ => (None, None),
        };
        drop(listener);
        let until = Instant::now() + LAST_WORDS;
        while self.has_backlog() && Instant::now() < until {
            tokio::select! {
                () = self.attention.called() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
        self.end_channels(|| DisconnectReason::Closed);
        if let Some(leadership) = leadership {
            serving::release(leadership);
        }
    }

    /// Writes what can be written. Whether something is left.
    fn has_backlog(&mut self) -> bool {
        let mut backlog = false;
        for channel in self.channels.values_mut() {
            channel.bell.heard();
            channel.write();
            backlog |= channel.link.outbox().outbox.backlog() > 0;
        }
        backlog
    }

    /// The oldest event, and what follows from its being taken.
    fn take_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Frame(id, frame) = &event
            && let Some(channel) = self.channels.get_mut(id)
        {
            let limit = self.options.max_undelivered;
            let before = channel.undelivered;
            channel.undelivered = before.saturating_sub(frame.length());
            if before >= limit && channel.undelivered < limit {
                // It was not read any more.
                channel.bell.ring();
            }
        }
        Some(event)
    }

    /// Does what can be done now. True: it must be repeated after the runtime has looked at its sockets.
    fn turn(&mut self, now: Instant) -> bool {
        // Sockets before timers: what a peer said while this process was stopped must be heard before its silence is judged.
        for source in self.attention.take() {
            match source {
                Source::Connection(id) => self.look_at(id, now),
                Source::Listener => self.accept(now),
            }
        }
        let passes = self.read_dry_now(now);
        self.accept_after_pause(now);
        self.seek(now);
        self.run_deadlines(now);
        self.check(now);
        self.note_phase(now);
        passes
    }

    /// Until something happens or is due.
    async fn wait(&self) {
        let due = [self.next_check, self.deadlines.first().map(|(deadline, _)| *deadline), self.role.due(&self.options)];
        match due.into_iter().flatten().min() {
            None => self.attention.called().await,
            Some(due) => tokio::select! {
                () = self.attention.called() => {}
                () = tokio::time::sleep_until(due.into()) => {}
            },
        }
    }

    /// Writes and reads what one connection has, within one turn's bounds.
    fn look_at(&mut self, id: ConnectionId, now: Instant) {
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
        if channel.undelivered < self.options.max_undelivered && channel.is_readable() {
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
    fn listen_to(&mut self, id: ConnectionId) {
        if let Some(channel) = self.channels.get_mut(&id)
            && channel.is_readable()
        {
            channel.bell.ring();
        }
    }

    /// Reads once, and passes on what there was. `None`: there is no such connection any more.
    fn read(&mut self, id: ConnectionId, now: Instant) -> Option<Reading> {
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

    fn received(&mut self, id: ConnectionId, frame: Frame, now: Instant) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        match (channel.stage, &self.role) {
            (Stage::Open, _) => {
                channel.undelivered += frame.length();
                self.events.push_back(Event::Frame(id, frame));
            }
            (Stage::Greeting, Role::Serving(_)) => self.client_said_hello(id, &frame, now),
            (Stage::Greeting, _) => self.server_said_hello(id, &frame, now),
        }
    }

    /// Begins to talk to whoever is at the other end.
    fn open_channel(&mut self, socket: Socket, credentials: Credentials, max_backlog: usize) -> ConnectionId {
        let id = ConnectionId::next();
        let bell = Bell::new(Source::Connection(id), Arc::clone(&self.attention));
        let channel = Channel::new(socket, credentials, id, bell, self.options.max_frame, max_backlog);
        // The first look registers the waker.
        channel.bell.ring();
        self.channels.insert(id, channel);
        id
    }

    fn set_deadline(&mut self, id: ConnectionId, deadline: Option<Instant>) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let before = std::mem::replace(&mut channel.deadline, deadline);
        if let Some(before) = before {
            self.deadlines.remove(&(before, id));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
    }

    /// Ends one connection, and does what follows for the role.
    fn end_channel(&mut self, id: ConnectionId, reason: DisconnectReason, now: Instant) {
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
    fn end_channels(&mut self, reason: impl Fn() -> DisconnectReason) {
        self.deadlines.clear();
        for (id, channel) in std::mem::take(&mut self.channels) {
            channel.link.end();
            if channel.stage == Stage::Open {
                self.events.push_back(Event::Disconnected(id, reason()));
            }
        }
    }

    fn run_deadlines(&mut self, now: Instant) {
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

    /// Looks each second whether everything is still ours.
    fn check(&mut self, now: Instant) {
        if matches!(self.role, Role::Idle | Role::Seeking(_) | Role::Closed) {
            // Each attempt looks for itself.
            self.next_check = None;
            return;
        }
        if *self.next_check.get_or_insert(now + CHECK_EVERY) > now {
            return;
        }
        self.next_check = Some(now + CHECK_EVERY);
        match self.role {
            Role::Serving(_) => self.check_term(now),
            _ => self.check_upstream(now),
        }
    }

    fn note_phase(&mut self, now: Instant) {
        self.note_silence(now);
        let phase = self.role.phase(&self.options, now);
        if phase != self.phase {
            self.phase = phase;
            self.events.push_back(Event::Phase(phase));
        }
    }

    /// The highest epoch that this process knows of.
    fn saw(&mut self, epoch: Epoch) {
        self.seen = self.seen.max(Some(epoch));
    }

    /// What this process says first, with an epoch.
    fn hello(&self, epoch: Epoch) -> Hello {
        Hello::new(self.options.protocol, &*self.options.software, epoch, self.directory.identity().to_string())
    }
}

impl Role {
    fn phase(&self, options: &Options, now: Instant) -> Phase {
        let long = |since: Instant| now.saturating_duration_since(since) >= options.patience;
        match self {
            Role::Idle => Phase::Idle,
            Role::Closed => Phase::Closed,
            Role::Seeking(seeking) => match seeking.obstacle {
                Some(Obstacle::Full { since }) if long(since) => Phase::NotAnswering { pid: None, since },
                Some(Obstacle::LockHeld { since }) if long(since) => Phase::LockHeldWithoutSocket { since },
                Some(Obstacle::Failed { until }) => Phase::BackingOff { until },
                _ => Phase::Connecting,
            },
            Role::Greeting(Greeting { pid, since, .. }) if long(*since) => {
                Phase::NotAnswering { pid: *pid, since: *since }
            }
            Role::Greeting(_) => Phase::Connecting,
            Role::Connected(Upstream { pid, epoch, .. }) => Phase::Connected { pid: *pid, epoch: *epoch },
            Role::Serving(serving) => Phase::Serving { epoch: serving.term.epoch() },
        }
    }

    /// When something is due.
    fn due(&self, options: &Options) -> Option<Instant> {
        match self {
            Role::Seeking(seeking) => Some(seeking.next),
            Role::Greeting(greeting) if !greeting.is_reported => Some(greeting.since + options.patience),
            Role::Serving(serving) => serving.paused_until,
            _ => None,
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            return;
        }
        // Not left to the fields: a clone of the term would keep the lock, and the order of their drops is not that of invariant 3.
        self.depose(DeposedReason::Resigned, Instant::now());
        self.end_channels(|| DisconnectReason::Closed);
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor")
            .field("directory", &self.directory.path())
            .field("phase", &self.phase)
            .field("connections", &self.channels.len())
            .finish_non_exhaustive()
    }
}
