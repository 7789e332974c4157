//! The world of a seed: processes, their connections, lock files, the disk, and the time.

use crate::mix::{Fault, Mix};
use crate::oracle::{Broken, Judged, Oracle, Process};
use crate::pipe::Pipe;
use crate::random::Random;
use flight_fencing::{Epoch, FencingToken};
use single_flight::Key;
use single_flight::machines::client::{CallId, Client};
use single_flight::machines::coordinator::{Coordinator, Link};
use single_flight::machines::protocol::{Request, RequestId, Response};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// A moment, in nanoseconds.
pub(crate) type Moment = u64;

/// After the faults stop, all must have ended within this time.
pub(crate) const PATIENCE: Moment = 10_000_000_000;

/// Something that happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// Somebody of the slot calls.
    Call(usize),
    /// The service thread wakes.
    Wake(usize),
    /// The end of a connection that `server` says has something to read.
    Readable {
        conn: usize,
        server: bool,
    },
    /// That end may write again.
    Writable {
        conn: usize,
        server: bool,
    },
    /// The supervisor tries to reach or to become a coordinator.
    Try(usize),
    /// A connection waits to be accepted.
    Accept(usize),
    /// The coordinator's hello arrives.
    Welcome(usize),
    /// The epoch is durable.
    Elected(usize),
    /// What the service thread was asked to read.
    Dry {
        process: usize,
        ticket: u64,
        link: Option<u64>,
    },
    /// A work goes on.
    Work {
        process: usize,
        entry: RequestId,
    },
    DropLease {
        process: usize,
        entry: RequestId,
    },
    Thaw(usize),
    ChildEnds {
        key: usize,
    },
    /// A process begins in the slot.
    Begin(usize),
    DiskFree,
    Fault(usize),
    /// The coordinator or the leader compares its lock file with the path.
    NoticeTerm(usize),
}

pub(crate) struct Conn {
    pub(crate) client: usize,
    pub(crate) server: usize,
    pub(crate) link: Link,
    pub(crate) epoch: Epoch,
    pub(crate) up: Pipe<Request>,
    pub(crate) down: Pipe<Response>,
    pub(crate) client_end: bool,
    pub(crate) server_end: bool,
    /// The coordinator has accepted it.
    pub(crate) accepted: bool,
    /// The client has read the hello.
    pub(crate) welcomed: bool,
    /// Nothing more gets through.
    pub(crate) cut: bool,
    /// Whether a `Readable` is under way, for the client and for the server.
    pub(crate) alarmed: [bool; 2],
    pub(crate) backlogged: bool,
    /// Up to which position the kernel must have taken, for which landing.
    pub(crate) landings: Vec<(u64, RequestId)>,
    pub(crate) deliveries: Vec<(u64, u64)>,
    /// Who is joined on this connection, and where its outcome is.
    pub(crate) told: Vec<(RequestId, FencingToken, Option<u64>)>,
}

pub(crate) struct Serving {
    pub(crate) machine: Coordinator,
    pub(crate) epoch: Epoch,
    pub(crate) current: bool,
    pub(crate) peers: BTreeMap<Link, usize>,
}

/// A work that runs: what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) entry: RequestId,
    pub(crate) key: usize,
    /// Before it ends it calls another key, and waits for it.
    pub(crate) nests: bool,
    pub(crate) waits_for: Option<CallId>,
}

pub(crate) struct Proc {
    pub(crate) slot: usize,
    pub(crate) alive: bool,
    pub(crate) frozen: bool,
    /// What happened while it was frozen.
    pub(crate) missed: Vec<Happening>,
    /// It was not closed.
    pub(crate) open: bool,
    pub(crate) wants: bool,
    /// A `Try`, a connection attempt or a campaign is under way.
    pub(crate) trying: bool,
    pub(crate) client: Client,
    pub(crate) serving: Option<Serving>,
    pub(crate) conn: Option<usize>,
    pub(crate) local: bool,
    pub(crate) campaigns: bool,
    /// When the service thread wakes.
    pub(crate) armed: Option<Moment>,
    pub(crate) works: Vec<Work>,
    pub(crate) deadlines: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    Entry(usize, RequestId),
    Child,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) failovers: u64,
    pub(crate) calls: u64,
    pub(crate) flights: u64,
    pub(crate) joined: u64,
    pub(crate) interrupted: u64,
    pub(crate) happenings: u64,
}

pub(crate) struct Sim {
    pub(crate) now: Moment,
    pub(crate) random: Random,
    pub(crate) mix: Mix,
    heap: BinaryHeap<Reverse<(Moment, u64, Happening)>>,
    sequence: u64,
    pub(crate) procs: Vec<Proc>,
    /// The process of each slot.
    pub(crate) slots: Vec<usize>,
    pub(crate) conns: Vec<Conn>,
    pub(crate) keys: Vec<Key>,
    pub(crate) locks: Vec<Holder>,
    pub(crate) outdated: Vec<(usize, RequestId)>,
    /// Who holds `flight.lock`.
    pub(crate) term: Option<usize>,
    pub(crate) published: Option<usize>,
    pub(crate) epoch: u32,
    pub(crate) durable_epoch: u32,
    pub(crate) disk_full: bool,
    pub(crate) oracle: Oracle,
    pub(crate) next_call: u64,
    pub(crate) figures: Figures,
    pub(crate) bad: Option<Broken>,
    pub(crate) log: Option<Vec<String>>,
}

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

impl Sim {
    pub(crate) fn new(seed: u64, transcript: bool) -> Self {
        let mut random = Random::new(seed);
        let mix = Mix::draw(&mut random);
        let mut sim = Sim {
            now: 0,
            random,
            heap: BinaryHeap::new(),
            sequence: 0,
            procs: Vec::new(),
            slots: Vec::new(),
            conns: Vec::new(),
            keys: NAMES.iter().take(mix.keys as usize).map(|name| Key::from(*name)).collect(),
            locks: vec![Holder::Nobody; mix.keys as usize],
            outdated: Vec::new(),
            term: None,
            published: None,
            epoch: 0,
            durable_epoch: 0,
            disk_full: false,
            oracle: Oracle::default(),
            next_call: 1,
            figures: Figures::default(),
            bad: None,
            log: transcript.then(Vec::new),
            mix,
        };
        sim.tell(|sim| format!("{:?}", sim.mix));
        for slot in 0..sim.mix.slots as usize {
            sim.slots.push(0);
            sim.begin(slot);
            sim.later(1, sim.mix.gap, Happening::Call(slot));
        }
        for number in 0..sim.mix.faults.len() {
            let (_, mean) = sim.mix.faults[number];
            sim.later(1, mean, Happening::Fault(number));
        }
        sim
    }

    /// A new process in the slot.
    pub(crate) fn begin(&mut self, slot: usize) {
        let number = self.procs.len();
        self.slots[slot] = number;
        self.procs.push(Proc {
            slot,
            alive: true,
            frozen: false,
            missed: Vec::new(),
            open: true,
            wants: false,
            trying: false,
            client: Client::new(number as u32),
            serving: None,
            conn: None,
            local: false,
            campaigns: false,
            armed: None,
            works: Vec::new(),
            deadlines: 0,
        });
    }

    /// It happens after this time, exactly.
    pub(crate) fn after(&mut self, time: Moment, what: Happening) {
        self.sequence += 1;
        self.heap.push(Reverse((self.now + time, self.sequence, what)));
    }

    /// It happens between `low` and `high` from now.
    pub(crate) fn later(&mut self, low: Moment, high: Moment, what: Happening) {
        let time = self.random.between(low.min(high), high);
        self.after(time, what);
    }

    pub(crate) fn next(&mut self) -> Option<Happening> {
        let Reverse((at, _, what)) = self.heap.pop()?;
        self.now = self.now.max(at);
        self.figures.happenings += 1;
        Some(what)
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Whether things go wrong still.
    pub(crate) fn is_stormy(&self) -> bool {
        self.now < self.mix.until
    }

    pub(crate) fn is_replacing(&self) -> bool {
        self.mix.has(Fault::ReplaceTerm)
    }

    pub(crate) fn judge(&mut self, judged: Judged) {
        if let Err(broken) = judged {
            self.bad.get_or_insert(broken);
        }
    }

    pub(crate) fn tell(&mut self, text: impl FnOnce(&Sim) -> String) {
        if self.log.is_some() {
            let line = format!("{:>13.6} ms  {}", self.now as f64 / 1e6, text(self));
            self.log.as_mut().expect("just seen").push(line);
        }
    }

    pub(crate) fn key_number(&self, key: &Key) -> usize {
        self.keys.iter().position(|known| known == key).expect("the keys are in the list")
    }

    pub(crate) fn number(process: usize) -> Process {
        Process::try_from(process).expect("fewer than 2^16 processes")
    }

    /// The epoch of the coordinator that the process is linked to.
    pub(crate) fn linked(&self, process: usize) -> Option<Epoch> {
        let proc = &self.procs[process];
        if proc.local {
            return proc.serving.as_ref().map(|serving| serving.epoch);
        }
        proc.conn.map(|conn| &self.conns[conn]).filter(|conn| conn.welcomed).map(|conn| conn.epoch)
    }

    /// All that was asked has ended, and nothing is left of it.
    pub(crate) fn rests(&self) -> bool {
        self.oracle.calls.is_empty()
            && !self.oracle.flights.iter().any(crate::oracle::Flight::is_active)
            && self.locks.iter().all(|lock| *lock == Holder::Nobody)
            && self.procs.iter().filter(|proc| proc.alive).all(|proc| {
                proc.client.entries() == 0
                    && proc.serving.as_ref().is_none_or(|serving| {
                        let report = serving.machine.report(self.time());
                        report.flights.is_empty() && report.waiting.is_empty()
                    })
            })
    }
}
