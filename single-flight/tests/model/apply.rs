//! What each step does to the world.

use crate::intern::Once;
use crate::oracle::Process;

use crate::steps::Step;
use crate::world::{Conn, Holder, NOW, Reach, Serving, World, key, pid};
use flight_fencing::Epoch;
use single_flight::machines::client::{self, CHECK, CallId, Client, NewCall, OwnerId, TELL};
use single_flight::machines::coordinator::{self, ClientId, Coordinator, Link, STALL};
use single_flight::machines::protocol::{Request, RequestId};
use std::rc::Rc;
use std::time::Duration;

/// A look at a key lock is due long before this, and nothing else is.
const LOOK: Duration = Duration::from_millis(100);

/// Kept outcomes are expired by then.
const EXPIRED: Duration = Duration::from_secs(40);

impl World {
    pub(crate) fn apply(&mut self, step: Step) {
        self.tell(|| format!("{step:?}"));
        match step {
            Step::Call { process, key: number, collide } => self.call(process, number, collide),
            Step::Leave { process, call } => {
                self.shared().left.leaves -= 1;
                self.oracle().left(call);
                self.enter(process, client::Event::Leave { call });
            }
            Step::Close { process } => {
                self.shared().left.closes -= 1;
                let proc = &self.procs[usize::from(process)];
                let heard = proc.reach == Reach::Local || proc.conns.iter().any(Conn::takes_requests);
                let told = proc.linked.filter(|_| heard);
                self.oracle().closed(process, told);
                self.enter(process, client::Event::Close { owner: OwnerId(0) });
            }
            Step::End { process, entry } => self.end(process, entry),
            Step::Abort { process, entry } => {
                self.shared().left.aborts -= 1;
                self.oracle().ended(process, entry, true);
                self.oracle().lease_dropped(process, entry);
                self.turn(process, false, |turn| {
                    turn.client(NOW, client::Event::LeaseDropped { entry });
                    turn.client(NOW, client::Event::Aborted { entry });
                });
            }
            Step::DropLease { process, entry } => {
                self.oracle().lease_dropped(process, entry);
                self.enter(process, client::Event::LeaseDropped { entry });
            }
            Step::Read { process, collide } => {
                let conn = self.proc(process).conns.iter_mut().find(|conn| conn.client_end);
                let response = conn.expect("it is connected").down.remove(0);
                if collide {
                    self.shared().left.collisions -= 1;
                }
                self.enter_at(process, NOW, collide, client::Event::Received((*response).clone()));
            }
            Step::ReadEnd { process } => {
                self.proc(process).close_current();
                self.enter(process, client::Event::Unlinked);
            }
            Step::Connect { process } => self.connect(process),
            Step::Elect { process } => self.elect(process),
            Step::Check { process } => self.enter_at(process, NOW + CHECK, false, client::Event::Timeout),
            Step::Tell { process } => {
                self.shared().left.untaken -= 1;
                self.enter_at(process, NOW + TELL, false, client::Event::Timeout);
                self.proc(process).untold.clear();
            }
            Step::NoticeDirectory { process } => {
                self.proc(process).astray = false;
                if self.serves(process).is_some() {
                    self.end_term(process);
                }
                if self.procs[usize::from(process)].reach == Reach::Remote {
                    self.proc(process).close_current();
                    self.enter(process, client::Event::Unlinked);
                }
                self.enter(process, client::Event::DirectoryReplaced);
            }
            Step::Serve { server, client, conn } => self.serve(server, client, usize::from(conn)),
            Step::ServeEnd { server, client, conn } => {
                let link = self.procs[usize::from(client)].conns[usize::from(conn)].link;
                self.count_dry(server, link);
                let proc = self.proc(client);
                proc.conns[usize::from(conn)].server_end = false;
                proc.conns[usize::from(conn)].cut = false;
                proc.conns[usize::from(conn)].told.clear();
                proc.forget_ended();
                self.coordinate(server, NOW, coordinator::Event::Disconnected { link });
            }
            Step::Dry { server, at } => {
                let (ticket, _) = self.serving(server).expect("it serves").drying.remove(usize::from(at));
                self.coordinate(server, NOW, coordinator::Event::Dry { ticket });
            }
            Step::Look { server } => self.coordinate(server, NOW + LOOK, coordinator::Event::Timeout),
            Step::Stall { server } => self.coordinate(server, NOW + STALL, coordinator::Event::Timeout),
            Step::NoticeTerm { server } => self.end_term(server),
            Step::Expire { server } => {
                self.shared().left.expiries -= 1;
                self.oracle().expired();
                self.coordinate(server, NOW + EXPIRED, coordinator::Event::Timeout);
            }
            Step::Resign { server } => {
                self.shared().left.resignations -= 1;
                self.end_term(server);
            }
            Step::Crash { process, child } => self.crash(process, child),
            Step::ChildEnds { key: number } => {
                self.shared().locks[usize::from(number)] = Holder::Nobody;
                self.oracle().child_died(&key(number));
            }
            Step::Break { process } => {
                self.shared().left.breaks -= 1;
                let conn = self.proc(process).conns.iter_mut().find(|conn| conn.client_end).expect("it is connected");
                conn.cut = true;
                conn.full = false;
                conn.backlog.clear();
                conn.told.clear();
            }
            Step::Fill { process } => {
                self.shared().left.clogs -= 1;
                self.proc(process).conns.iter_mut().find(|conn| conn.client_end).expect("it is connected").full = true;
            }
            Step::Drain { process } => self.drain(process),
            Step::ReplaceLock { key: number } => {
                self.shared().left.replaced_locks -= 1;
                self.replace_lock(number);
            }
            Step::ReplaceTerm => {
                self.shared().left.replaced_terms -= 1;
                self.replace_term();
            }
            Step::ReplaceDirectory => {
                self.shared().left.replaced_directories -= 1;
                self.replace_term();
                for number in 0..self.shared.left.keys {
                    self.replace_lock(number);
                }
                for number in 0..self.procs.len() {
                    if self.procs[number].alive && self.procs[number].open {
                        self.proc(number as Process).astray = true;
                    }
                }
            }
            Step::RestoreEpoch => {
                self.shared().left.restored_epochs -= 1;
                self.shared().epoch = 0;
                self.oracle().epoch_restored();
            }
        }
    }

    fn call(&mut self, process: Process, number: u8, collide: bool) {
        if collide {
            self.shared().left.collisions -= 1;
        }
        let shared = self.shared();
        shared.left.calls[usize::from(process)] -= 1;
        let made = &mut shared.made[usize::from(process)];
        *made += 1;
        let call = CallId(u64::from(process) * 16 + u64::from(*made));
        self.oracle().called(process, call, key(number));
        let new = NewCall {
            call,
            owner: OwnerId(0),
            key: key(number),
            codec: String::new(),
            label: String::new(),
            deadline: None,
        };
        self.enter_at(process, NOW, collide, client::Event::Call(new));
    }

    fn end(&mut self, process: Process, entry: RequestId) {
        let Some(outcome) = self.oracle().ended(process, entry, false) else { return };
        let long = self.shared.left.long_leases;
        if !long {
            self.oracle().lease_dropped(process, entry);
        }
        self.turn(process, false, |turn| {
            if !long {
                turn.client(NOW, client::Event::LeaseDropped { entry });
            }
            turn.client(NOW, client::Event::Ended { entry, outcome });
        });
    }

    fn connect(&mut self, process: Process) {
        let server = self.shared.published.expect("somebody serves");
        let used = |link: Link| self.conn_of(server, link).is_some();
        let link = (0..).map(|number| Link(1 + u64::from(process) * 8 + number)).find(|link| !used(*link));
        let link = link.expect("numbers do not end");
        let seen = self.procs[usize::from(process)].client.highest_epoch();
        let epoch = self.serves(server).expect("it is published").epoch;
        if let Some(seen) = seen.filter(|seen| *seen > epoch) {
            let raised = Epoch::new(seen.get() + 1);
            self.shared().epoch = raised.get();
            self.serving(server).expect("it serves").epoch = raised;
            self.coordinate(server, NOW, coordinator::Event::EpochRaised { epoch: raised });
        }
        let epoch = self.serves(server).expect("it serves").epoch;
        self.proc(process).conns.push(Conn {
            server,
            link,
            up: Vec::new(),
            down: Vec::new(),
            client_end: true,
            server_end: true,
            cut: false,
            full: false,
            backlog: Vec::new(),
            told: Vec::new(),
        });
        self.proc(process).reach = Reach::Remote;
        self.proc(process).linked = Some(epoch);
        let client = ClientId(u64::from(process) + 1);
        let connected = coordinator::Event::Connected { link, client, pid: pid(usize::from(process)) };
        self.coordinate(server, NOW, connected);
        self.enter(process, client::Event::Linked { epoch });
    }

    fn elect(&mut self, process: Process) {
        let seen = self.procs[usize::from(process)].client.highest_epoch().map_or(0, Epoch::get);
        let epoch = Epoch::new(self.shared.epoch.max(seen) + 1);
        let shared = self.shared();
        shared.epoch = epoch.get();
        shared.term = Some(process);
        shared.published = Some(process);
        let machine = Once::new(Coordinator::new(NOW, epoch, pid(usize::from(process))));
        let serving = Serving { machine, current: true, epoch, drying: Vec::new() };
        Rc::make_mut(&mut self.terms).0[usize::from(process)] = Some(serving);
        self.proc(process).reach = Reach::Local;
        self.proc(process).linked = Some(epoch);
        let client = ClientId(u64::from(process) + 1);
        self.turn(process, false, |turn| {
            let connected = coordinator::Event::Connected { link: Link::LOCAL, client, pid: pid(usize::from(process)) };
            turn.coordinator(NOW, connected);
            turn.client(NOW, client::Event::Linked { epoch });
        });
    }

    fn serve(&mut self, server: Process, client: Process, at: usize) {
        let conn = &mut self.proc(client).conns[at];
        let request = Request::clone(&conn.up.remove(0));
        let link = conn.link;
        match &request {
            Request::Rejoin { id, token, .. } => conn.told.push((*id, *token)),
            Request::Cancel { id } => conn.told.retain(|(told, _)| told != id),
            _ => {}
        }
        self.count_dry(server, link);
        let term_is_current = self.serves(server).is_some_and(|serving| serving.current);
        self.coordinate(server, NOW, coordinator::Event::Received { link, request, term_is_current });
    }

    /// One more thing of this link was read.
    fn count_dry(&mut self, server: Process, link: Link) {
        let serving = self.serving(server).expect("it serves");
        for (_, before) in &mut serving.drying {
            for (_, count) in before.iter_mut().filter(|(of, _)| *of == link) {
                *count -= 1;
            }
            before.retain(|(_, count)| *count > 0);
        }
    }

    fn drain(&mut self, process: Process) {
        let proc = self.proc(process);
        let conn = proc.conns.iter_mut().find(|conn| conn.client_end).expect("it is connected");
        conn.full = false;
        let (server, link) = (conn.server, conn.link);
        let backlog = std::mem::take(&mut conn.backlog);
        for (response, _) in &backlog {
            use single_flight::machines::protocol::Response::{Interrupted, Landed};
            if let Landed { id, .. } | Interrupted { id, .. } = &**response {
                conn.told.retain(|(told, _)| told != id);
            }
        }
        conn.down.extend(backlog.iter().map(|(response, _)| response.clone()));
        if backlog.is_empty() {
            return;
        }
        self.turn(server, false, |turn| {
            turn.coordinator(NOW, coordinator::Event::Backlog { link, bytes: 0, written: 2 });
            for delivery in backlog.into_iter().filter_map(|(_, delivery)| delivery) {
                turn.coordinator(NOW, coordinator::Event::Delivered { link, delivery });
            }
        });
    }

    fn crash(&mut self, process: Process, child: Option<u8>) {
        let shared = self.shared();
        if child.is_some() {
            shared.left.orphaned_children -= 1;
        } else {
            shared.left.crashes -= 1;
        }
        shared.left.calls[usize::from(process)] = 0;
        shared.outdated.retain(|(of, _)| *of != process);
        for (number, lock) in shared.locks.iter_mut().enumerate() {
            if matches!(lock, Holder::Entry(of, _) if *of == process) {
                *lock = if child == Some(number as u8) { Holder::Child } else { Holder::Nobody };
            }
        }
        self.oracle().died(process, child.map(key).as_ref());
        let proc = self.proc(process);
        proc.alive = false;
        proc.open = false;
        proc.wants = false;
        proc.astray = false;
        proc.client = Once::new(Client::new(pid(usize::from(process))));
        proc.untold.clear();
        let local = proc.reach == Reach::Local;
        proc.close_current();
        if local {
            self.end_term(process);
        }
    }

    fn replace_lock(&mut self, number: u8) {
        let shared = self.shared();
        if let Holder::Entry(process, entry) = shared.locks[usize::from(number)] {
            shared.outdated.push((process, entry));
            shared.outdated.sort_unstable();
            self.oracle().lock_replaced(process, entry);
        }
        self.shared().locks[usize::from(number)] = Holder::Nobody;
    }

    fn replace_term(&mut self) {
        if let Some(server) = self.shared.term {
            self.serving(server).expect("it serves").current = false;
        }
        self.shared().term = None;
        self.shared().published = None;
    }
}
