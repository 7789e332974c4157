//! The one who keeps a process connected to the process that serves, or makes it that process.
//!
//! Invariants:
//! 1. Everything happens in [`Supervisor::turn`], on the owner's thread, and it waits only in [`Supervisor::wait`]. So there are no
//!    tasks that outlive it, and dropping the future of `next` loses nothing.
//! 2. A turn is made only when all events were taken, and ends when it has brought some. So a peer is read as fast as the owner
//!    handles what it says, and no faster.
//! 3. A term ends in this order: grants stop, the listener and the connections close, the lock is released.
//! 4. Time elects nobody. It only says when to try the lock again, and what to call the wait.

mod channel;
mod channels;
mod dry;
pub(crate) mod event;
pub(crate) mod options;
pub(crate) mod phase;
mod role;
mod seeking;
mod serving;
pub(crate) mod term;
mod upstream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flight_fencing::Epoch;
use flight_key_lock::LocalDirectory;

use self::channel::{CHUNK, Channel};
use self::dry::DryRead;
use self::event::{DeposedReason, DisconnectReason, Event};
use self::options::Options;
use self::phase::Phase;
use self::role::Role;
use crate::attention::{Attention, Source};
use crate::connection::ConnectionId;
use crate::error::AddressError;
use crate::handshake::Hello;
use crate::socket::Address;

/// How often it is looked whether the lock, the directory and the socket are still ours.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A turn looks no further when it has brought so many events.
const EVENTS_IN_A_TURN: usize = 32;

/// How long a close waits while no peer takes anything of what was queued for it.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// How long a close waits while they do.
const LONGEST_CLOSE: Duration = Duration::from_secs(5);

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
    /// Where something happened, and where nobody has looked yet.
    sources: VecDeque<Source>,
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
    /// What tells this supervisor from every other one, whatever the process ids say.
    instance: u64,
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
            sources: VecDeque::new(),
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
            // A new hasher is keyed at random, which is all that is needed here.
            instance: RandomState::new().hash_one(std::process::id()),
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
            if let Some(event) = self.events.pop_front() {
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

    /// Closes everything. Waits for the peers to take what is queued for them, as long as they do (and 250 ms without progress, 5 s in
    /// all), and releases the lock last.
    ///
    /// # Cancellation
    ///
    /// Dropping the future is like dropping the supervisor.
    pub async fn close(mut self) {
        self.attention.want(false);
        // First of all: the clones of the term must hear it before anybody else can be elected.
        let (leadership, listener) = match std::mem::replace(&mut self.role, Role::Idle) {
            Role::Serving(serving) => (serving.term.end(), Some(serving.listener)),
            _ => (None, None),
        };
        drop(listener);
        let end = Instant::now() + LONGEST_CLOSE;
        let (mut until, mut least) = (end, usize::MAX);
        loop {
            let backlog = self.write_backlogs();
            let now = Instant::now();
            if backlog < least {
                (least, until) = (backlog, end.min(now + LAST_WORDS));
            }
            if backlog == 0 || now >= until {
                break;
            }
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

    /// Writes what can be written. How many bytes are left.
    fn write_backlogs(&mut self) -> usize {
        let mut backlog = 0;
        for channel in self.channels.values_mut() {
            channel.bell.heard();
            channel.write();
            backlog += channel.link.outbox().outbox.backlog();
        }
        backlog
    }

    /// Does what can be done now. True: it must be repeated after the runtime has looked at its sockets.
    fn turn(&mut self, now: Instant) -> bool {
        // Sockets before timers: what a peer said while this process was stopped must be heard before its silence is judged.
        self.sources.extend(self.attention.take());
        while self.events.len() < EVENTS_IN_A_TURN
            && let Some(source) = self.sources.pop_front()
        {
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
        let due =
            [self.next_check, self.deadlines.first().map(|(deadline, _)| *deadline), self.role.due(&self.options)];
        match due.into_iter().flatten().min() {
            None => self.attention.called().await,
            Some(due) => tokio::select! {
                () = self.attention.called() => {}
                () = tokio::time::sleep_until(due.into()) => {}
            },
        }
    }

    /// Looks each second whether everything is still ours.
    fn check(&mut self, now: Instant) {
        if matches!(self.role, Role::Idle | Role::Seeking(_)) {
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
        let mut hello =
            Hello::new(self.options.protocol, &*self.options.software, epoch, self.directory.identity().to_string());
        hello.instance = self.instance;
        hello.max_frame = u32::try_from(self.options.max_frame).unwrap_or(u32::MAX);
        hello
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
