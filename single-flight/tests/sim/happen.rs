//! What each happening does.

use crate::drive::deadline;
use crate::mix::Fault;
use crate::oracle::Broken;
use crate::pipe::Pipe;
use crate::world::{Conn, Happening, Holder, Serving, Sim};
use flight_fencing::Epoch;
use single_flight::machines::client::{self, CallId, NewCall, OwnerId};
use single_flight::machines::coordinator::{self, ClientId, Coordinator, Link};
use single_flight::machines::protocol::{Request, RequestId};
use std::collections::BTreeMap;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

impl Sim {
    /// The process whose turn it is, if it is one's.
    fn turn_of(&self, what: Happening) -> Option<usize> {
        match what {
            Happening::Wake(process)
            | Happening::Try(process)
            | Happening::Elected(process)
            | Happening::NoticeTerm(process)
            | Happening::Dry { process, .. }
            | Happening::Work { process, .. }
            | Happening::DropLease { process, .. } => Some(process),
            Happening::Call(slot) => Some(self.slots[slot]),
            Happening::Readable { conn, server } | Happening::Writable { conn, server } => {
                Some(if server { self.conns[conn].server } else { self.conns[conn].client })
            }
            Happening::Accept(conn) => Some(self.conns[conn].server),
            Happening::Welcome(conn) => Some(self.conns[conn].client),
            Happening::Thaw(_)
            | Happening::ChildEnds { .. }
            | Happening::Begin(_)
            | Happening::DiskFree
            | Happening::Fault(_) => None,
        }
    }

    pub(crate) fn happen(&mut self, what: Happening) {
        if let Some(process) = self.turn_of(what) {
            if !self.procs[process].alive && !matches!(what, Happening::Call(_)) {
                return;
            }
            if self.procs[process].frozen {
                self.procs[process].missed.push(what);
                return;
            }
        }
        match what {
            Happening::Call(slot) => self.call(slot),
            Happening::Wake(process) => {
                self.procs[process].armed = None;
                let due = |timeout: Option<std::time::Duration>, now| timeout.is_some_and(|at| at <= now);
                let now = self.time();
                if due(self.procs[process].client.poll_timeout(), now) {
                    self.client(process, client::Event::Timeout);
                }
                let serving = self.procs[process].serving.as_ref();
                if due(serving.and_then(|serving| serving.machine.poll_timeout()), now) {
                    self.coordinator(process, coordinator::Event::Timeout);
                }
                self.pump(process);
            }
            Happening::Readable { conn, server } => self.read(conn, server),
            Happening::Writable { conn, server } => {
                let process = if server { self.conns[conn].server } else { self.conns[conn].client };
                self.flush(process, conn);
                self.pump(process);
            }
            Happening::Try(process) => self.attempt(process),
            Happening::Accept(conn) => self.accept(conn),
            Happening::Welcome(conn) => self.welcome(conn),
            Happening::Elected(process) => self.elected(process),
            Happening::Dry { process, ticket, link } => self.read_dry(process, ticket, link),
            Happening::Work { process, entry } => self.work(process, entry),
            Happening::DropLease { process, entry } => {
                self.oracle.lease_dropped(Sim::number(process), entry);
                self.enter(process, client::Event::LeaseDropped { entry });
            }
            Happening::Thaw(process) => self.thaw(process),
            Happening::ChildEnds { key } => {
                self.tell(|sim| format!("the child that has {} is dead", sim.keys[key]));
                if self.locks[key] == Holder::Child {
                    self.locks[key] = Holder::Nobody;
                }
                let key = self.keys[key].clone();
                self.oracle.child_died(&key);
            }
            Happening::Begin(slot) => {
                self.tell(|sim| format!("process {} begins", sim.procs.len()));
                self.begin(slot);
            }
            Happening::DiskFree => self.disk_full = false,
            Happening::Fault(number) => self.fault(number),
            Happening::NoticeTerm(process) => {
                if self.procs[process].serving.as_ref().is_some_and(|serving| !serving.current) {
                    self.end_term(process);
                    self.arm_again(process);
                }
            }
        }
    }

    fn call(&mut self, slot: usize) {
        if !self.is_stormy() {
            return;
        }
        let process = self.slots[slot];
        let gap = self.mix.gap * 2;
        self.later(1, gap, Happening::Call(slot));
        if !self.procs[process].alive || !self.procs[process].open {
            return;
        }
        let key = self.random.below(self.keys.len() as u64) as usize;
        self.call_key(process, key);
    }

    fn call_key(&mut self, process: usize, key: usize) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.figures.calls += 1;
        let key = self.keys[key].clone();
        self.oracle.called(Sim::number(process), id, key.clone());
        let patient = self.mix.deadlines == 0 || !self.random.once_in(self.mix.deadlines);
        let wait = self.random.spread(10 * MICRO, 20 * MILLI);
        let call = NewCall {
            call: id,
            owner: OwnerId(0),
            key,
            codec: String::new(),
            label: String::new(),
            deadline: if patient { None } else { deadline(self.time(), wait) },
        };
        self.enter(process, client::Event::Call(call));
        id
    }

    fn work(&mut self, process: usize, entry: RequestId) {
        let Some(at) = self.procs[process].works.iter().position(|work| work.entry == entry) else { return };
        let work = self.procs[process].works[at];
        if work.nests && self.procs[process].open {
            self.procs[process].works[at].nests = false;
            let key = self.random.between(work.key as u64 + 1, self.keys.len() as u64 - 1) as usize;
            // The call may end before it returns, and the work must know what it waits for by then.
            let next = CallId(self.next_call);
            self.procs[process].works[at].waits_for = Some(next);
            self.call_key(process, key);
            return;
        }
        self.work_ends(process, entry, false);
    }

    /// The supervisor looks for a coordinator while one is wanted.
    pub(crate) fn seek(&mut self, process: usize) {
        let proc = &mut self.procs[process];
        if proc.wants && proc.open && !proc.local && proc.conn.is_none() && !proc.trying {
            proc.trying = true;
            self.later(MICRO, self.mix.latency, Happening::Try(process));
        }
    }

    fn attempt(&mut self, process: usize) {
        let proc = &mut self.procs[process];
        proc.trying = false;
        if !proc.wants || !proc.open || proc.local || proc.conn.is_some() || proc.campaigns {
            return;
        }
        if let Some(server) = self.published {
            let at = self.conns.len();
            let capacity = self.mix.capacity;
            self.conns.push(Conn {
                client: process,
                server,
                link: Link(at as u64 + 1),
                epoch: Epoch::new(0),
                up: Pipe::new(capacity),
                down: Pipe::new(capacity),
                client_end: true,
                server_end: true,
                accepted: false,
                welcomed: false,
                cut: false,
                alarmed: [false; 2],
                backlogged: false,
                landings: Vec::new(),
                deliveries: Vec::new(),
                told: Vec::new(),
            });
            self.procs[process].conn = Some(at);
            self.later(MICRO, self.mix.latency, Happening::Accept(at));
        } else if self.term.is_none() {
            self.term = Some(process);
            self.procs[process].campaigns = true;
            self.later(MICRO, 300 * MICRO, Happening::Elected(process));
        } else {
            self.procs[process].trying = true;
            self.later(100 * MICRO, 3 * MILLI, Happening::Try(process));
        }
    }

    fn accept(&mut self, at: usize) {
        let server = self.conns[at].server;
        let Some(serving) = self.procs[server].serving.as_ref() else { return };
        if !self.conns[at].client_end || !self.conns[at].server_end {
            return;
        }
        let (client, link) = (self.conns[at].client, self.conns[at].link);
        let seen = self.procs[client].client.highest_epoch();
        if let Some(seen) = seen.filter(|seen| *seen > serving.epoch) {
            let epoch = Epoch::new(seen.get() + 1);
            self.epoch = epoch.get();
            self.durable_epoch = epoch.get();
            self.procs[server].serving.as_mut().expect("just seen").epoch = epoch;
            self.coordinate(server, coordinator::Event::EpochRaised { epoch });
        }
        let Some(serving) = self.procs[server].serving.as_mut() else { return };
        serving.peers.insert(link, at);
        self.conns[at].epoch = serving.epoch;
        self.conns[at].accepted = true;
        let event = coordinator::Event::Connected { link, client: ClientId(client as u64 + 1), pid: client as u32 };
        self.coordinate(server, event);
        self.later(MICRO, self.mix.latency, Happening::Welcome(at));
        self.alarm(at, true);
    }

    fn welcome(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        if !conn.client_end {
            return;
        }
        conn.welcomed = true;
        let (client, epoch) = (conn.client, conn.epoch);
        self.enter(client, client::Event::Linked { epoch });
        self.alarm(at, false);
    }

    fn elected(&mut self, process: usize) {
        self.procs[process].campaigns = false;
        if !self.procs[process].open {
            self.leave_term(process);
            return;
        }
        if self.disk_full {
            self.leave_term(process);
            self.enter(process, client::Event::AttemptFailed { error: client::ErrorId(1), fatal: false });
            self.procs[process].trying = true;
            self.later(10 * MILLI, 100 * MILLI, Happening::Try(process));
            return;
        }
        let seen = self.procs[process].client.highest_epoch().map_or(0, Epoch::get);
        self.epoch = self.epoch.max(seen) + 1;
        self.durable_epoch = self.epoch;
        if self.epoch > 1 && !self.oracle.calls.is_empty() {
            self.figures.failovers += 1;
        }
        let current = self.term == Some(process);
        if current {
            self.published = Some(process);
        }
        let epoch = Epoch::new(self.epoch);
        let machine = Coordinator::new(self.time(), epoch, process as u32);
        self.procs[process].serving = Some(Serving { machine, epoch, current, peers: BTreeMap::new() });
        self.procs[process].local = true;
        if !current {
            self.later(MILLI, 1000 * MILLI, Happening::NoticeTerm(process));
        }
        self.tell(|_| format!("process {process} is elected: {epoch:?}"));
        let client = ClientId(process as u64 + 1);
        self.coordinator(process, coordinator::Event::Connected { link: Link::LOCAL, client, pid: process as u32 });
        self.enter(process, client::Event::Linked { epoch });
    }

    fn leave_term(&mut self, process: usize) {
        if self.term == Some(process) {
            self.term = None;
        }
        if self.published == Some(process) {
            self.published = None;
        }
    }

    /// Reads some of what there is at one end of a connection, then lets the other end write.
    fn read(&mut self, at: usize, server: bool) {
        self.conns[at].alarmed[usize::from(server)] = false;
        let slow = self.mix.slow_reads > 0 && self.is_stormy() && self.random.once_in(self.mix.slow_reads);
        let limit = if slow { self.random.between(1, 200) } else { u64::MAX };
        self.read_some(at, server, limit);
    }

    fn read_some(&mut self, at: usize, server: bool, limit: u64) {
        let conn = &mut self.conns[at];
        if server {
            let (server, link) = (conn.server, conn.link);
            if !conn.server_end || !conn.accepted {
                return;
            }
            let mut whole = Vec::new();
            conn.up.read(limit, &mut whole);
            for request in whole {
                match &request {
                    Request::Rejoin { id, token, .. } => self.conns[at].told.push((*id, *token, None)),
                    Request::Cancel { id } => self.conns[at].told.retain(|(told, ..)| told != id),
                    _ => {}
                }
                let term_is_current = self.procs[server].serving.as_ref().is_some_and(|serving| serving.current);
                self.coordinate(server, coordinator::Event::Received { link, request, term_is_current });
                if self.procs[server].serving.is_none() {
                    return;
                }
            }
            let conn = &mut self.conns[at];
            if conn.up.is_readable() {
                self.alarm(at, true);
            } else if conn.cut || !conn.client_end {
                conn.server_end = false;
                conn.told.clear();
                if let Some(serving) = self.procs[server].serving.as_mut() {
                    serving.peers.remove(&link);
                }
                self.coordinate(server, coordinator::Event::Disconnected { link });
                self.alarm(at, false);
            } else if conn.up.backlog() > 0 {
                self.later(MICRO, self.mix.latency, Happening::Writable { conn: at, server: false });
            }
        } else {
            let process = conn.client;
            if !conn.client_end {
                return;
            }
            if conn.welcomed {
                let mut whole = Vec::new();
                conn.down.read(limit, &mut whole);
                for response in whole {
                    self.enter(process, client::Event::Received(response));
                    if self.procs[process].conn != Some(at) {
                        return;
                    }
                }
            }
            let conn = &mut self.conns[at];
            if conn.welcomed && conn.down.is_readable() {
                self.alarm(at, false);
            } else if conn.cut || !conn.server_end {
                self.part(process);
            } else if conn.down.backlog() > 0 {
                self.later(MICRO, self.mix.latency, Happening::Writable { conn: at, server: true });
            }
        }
    }

    /// The client closes its connection, and hears of it.
    pub(crate) fn part(&mut self, process: usize) {
        let Some(at) = self.procs[process].conn.take() else { return };
        let welcomed = self.hang_up(at);
        if welcomed {
            self.enter(process, client::Event::Unlinked);
        }
        self.seek(process);
    }

    fn hang_up(&mut self, at: usize) -> bool {
        let conn = &mut self.conns[at];
        conn.client_end = false;
        conn.up.end();
        conn.down.discard();
        conn.told.clear();
        conn.landings.clear();
        let welcomed = conn.welcomed;
        self.alarm(at, true);
        welcomed
    }

    fn read_dry(&mut self, process: usize, ticket: u64, link: Option<u64>) {
        let Some(serving) = self.procs[process].serving.as_ref() else { return };
        let peers: Vec<usize> = serving
            .peers
            .iter()
            .filter(|(known, _)| link.is_none_or(|link| known.0 == link))
            .map(|(_, at)| *at)
            .collect();
        for at in peers {
            self.read_some(at, true, u64::MAX);
        }
        self.coordinate(process, coordinator::Event::Dry { ticket });
    }

    /// The coordinator of the process is gone. What the kernel has taken stays readable.
    pub(crate) fn end_term(&mut self, process: usize) {
        let Some(serving) = self.procs[process].serving.take() else { return };
        self.tell(|_| format!("the term of process {process} ends"));
        self.leave_term(process);
        for at in 0..self.conns.len() {
            // Those that were not accepted, too.
            if self.conns[at].server == process && self.conns[at].server_end {
                let conn = &mut self.conns[at];
                conn.server_end = false;
                conn.up.discard();
                conn.down.end();
                conn.told.clear();
                conn.deliveries.clear();
                self.alarm(at, false);
            }
        }
        drop(serving);
        if std::mem::take(&mut self.procs[process].local) && self.procs[process].alive {
            self.enter(process, client::Event::Unlinked);
            self.seek(process);
        }
    }

    pub(crate) fn disconnect(&mut self, process: usize) {
        self.procs[process].open = false;
        self.part(process);
        self.end_term(process);
        if self.procs[process].campaigns {
            self.procs[process].campaigns = false;
            self.leave_term(process);
        }
        let slot = self.procs[process].slot;
        if self.slots[slot] == process {
            self.later(10 * MICRO, 3 * MILLI, Happening::Begin(slot));
        }
    }

    fn thaw(&mut self, process: usize) {
        if !self.procs[process].frozen {
            return;
        }
        self.tell(|_| format!("process {process} goes on"));
        self.procs[process].frozen = false;
        for what in std::mem::take(&mut self.procs[process].missed) {
            self.after(0, what);
        }
    }

    pub(crate) fn thaw_all(&mut self) {
        self.disk_full = false;
        for process in 0..self.procs.len() {
            self.thaw(process);
        }
    }

    fn arm_again(&mut self, process: usize) {
        self.pump(process);
    }

    pub(crate) fn crash(&mut self, process: usize, child: Option<usize>) {
        if !self.procs[process].alive {
            return;
        }
        self.tell(|_| format!("process {process} dies{}", if child.is_some() { ", its child lives" } else { "" }));
        self.procs[process].alive = false;
        self.procs[process].frozen = false;
        self.procs[process].missed.clear();
        self.outdated.retain(|(of, _)| *of != process);
        for (number, lock) in self.locks.iter_mut().enumerate() {
            if matches!(lock, Holder::Entry(of, _) if *of == process) {
                *lock = if child == Some(number) { Holder::Child } else { Holder::Nobody };
            }
        }
        if let Some(key) = child {
            self.later(100 * MICRO, 30 * MILLI, Happening::ChildEnds { key });
        }
        let key = child.map(|key| self.keys[key].clone());
        self.oracle.died(Sim::number(process), key.as_ref());
        if let Some(at) = self.procs[process].conn.take() {
            self.hang_up(at);
        }
        if self.procs[process].campaigns {
            self.leave_term(process);
        }
        self.end_term(process);
        let slot = self.procs[process].slot;
        if self.slots[slot] == process && self.procs[process].open {
            self.later(10 * MICRO, 5 * MILLI, Happening::Begin(slot));
        }
        self.procs[process].works.clear();
    }

    fn fault(&mut self, number: usize) {
        if !self.is_stormy() {
            return;
        }
        let (fault, mean) = self.mix.faults[number];
        self.later(mean / 4, mean * 2, Happening::Fault(number));
        self.strike(fault);
    }

    pub(crate) fn not_ended(&self) -> Broken {
        let calls: Vec<_> = self.oracle.calls.iter().collect();
        let active: Vec<_> = self.oracle.flights.iter().filter(|flight| flight.is_active()).collect();
        let entries: Vec<_> = self
            .procs
            .iter()
            .enumerate()
            .filter(|(_, proc)| proc.alive && proc.client.entries() > 0)
            .map(|(number, proc)| (number, proc.client.entries()))
            .collect();
        Broken::new(
            7,
            format!(
                "long after the faults stopped: calls {calls:?}, works {active:?}, locks {:?}, entries {entries:?}",
                self.locks
            ),
        )
    }

    /// Whether the fault may be judged by the strict rules of replaced files.
    pub(crate) fn replaces(&self) -> bool {
        self.mix.has(Fault::ReplaceLock) || self.is_replacing()
    }
}
