//! Carries out what the machines want, in the order in which the library's driver does.

use crate::intern::Once;
use crate::oracle::{Broken, Process};
use crate::sometimes::Sometimes;
use crate::world::{Holder, NOW, Proc, Reach, World, key_number};
use flight_fencing::Epoch;
use single_flight::Key;
use single_flight::machines::client::{self, Client, Look, Verdict};
use single_flight::machines::coordinator::{self, Coordinator, Link};
use single_flight::machines::protocol::{Request, RequestId, Response};
use std::rc::Rc;
use std::time::Duration;

/// The machines of one process while they run.
pub(crate) struct Turn<'world> {
    pub(crate) world: &'world mut World,
    pub(crate) process: Process,
    pub(crate) client: Client,
    pub(crate) coordinator: Option<Coordinator>,
    /// Frames that are in their sockets since this turn.
    delivered: Vec<(Link, u64)>,
    /// Connections whose full socket got something more to wait for.
    blocked: Vec<Link>,
    landed: Vec<RequestId>,
    /// A key lock that is busy for a moment because a coordinator looks at it.
    pub(crate) collide: bool,
    /// The coordinator of this process ends its term after the turn.
    ends: bool,
    /// Closed: the process disconnects after the turn.
    leaves: bool,
    /// The event that the coordinator handles is a rejoin, or a cancel: for what a run should show sometimes.
    answering: Option<Answering>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answering {
    Rejoin,
    Cancel,
    Joined,
}

impl World {
    /// Lets the machines of a process handle something, then carries out all that follows from it.
    pub(crate) fn turn(&mut self, process: Process, collide: bool, begin: impl FnOnce(&mut Turn<'_>)) {
        let client = Client::clone(&self.procs[usize::from(process)].client);
        let coordinator = self.serves(process).map(|serving| Coordinator::clone(&serving.machine));
        let mut turn = Turn {
            world: self,
            process,
            client,
            coordinator,
            delivered: Vec::new(),
            blocked: Vec::new(),
            landed: Vec::new(),
            collide,
            ends: false,
            leaves: false,
            answering: None,
        };
        begin(&mut turn);
        turn.pump();
        let Turn { client, coordinator, ends, leaves, .. } = turn;
        let client = Once::new(client);
        if client != self.procs[usize::from(process)].client {
            self.proc(process).client = client;
        }
        if let Some(mut machine) = coordinator {
            machine.normalise(NOW);
            let machine = Once::new(machine);
            if self.serves(process).is_some_and(|serving| serving.machine != machine) {
                self.serving(process).expect("it serves").machine = machine;
            }
        }
        if ends {
            self.end_term(process);
        }
        if leaves {
            self.disconnect(process);
        }
    }

    /// The process handles an event of its client.
    pub(crate) fn enter(&mut self, process: Process, event: client::Event) {
        self.enter_at(process, NOW, false, event);
    }

    pub(crate) fn enter_at(&mut self, process: Process, now: Duration, collide: bool, event: client::Event) {
        self.turn(process, collide, |turn| turn.client(now, event));
    }

    pub(crate) fn coordinate(&mut self, server: Process, now: Duration, event: coordinator::Event) {
        self.turn(server, false, |turn| turn.coordinator(now, event));
    }

    /// The coordinator of the process is gone. What it had written stays readable.
    pub(crate) fn end_term(&mut self, server: Process) {
        Rc::make_mut(&mut self.terms).0[usize::from(server)] = None;
        if self.shared.term == Some(server) {
            self.shared().term = None;
        }
        if self.shared.published == Some(server) {
            self.shared().published = None;
        }
        for number in 0..self.procs.len() {
            if self.procs[number].conns.iter().any(|conn| conn.server == server && conn.server_end) {
                let proc = Rc::make_mut(&mut self.procs[number]);
                for conn in proc.conns.iter_mut().filter(|conn| conn.server == server) {
                    conn.server_end = false;
                    conn.cut = false;
                    conn.full = false;
                    conn.up.clear();
                    conn.backlog.clear();
                    conn.told.clear();
                }
                proc.forget_ended();
            }
        }
        if self.procs[usize::from(server)].reach == Reach::Local {
            self.proc(server).reach = Reach::None;
            self.proc(server).linked = None;
            self.enter(server, client::Event::Unlinked);
        }
    }

    /// The process needs no coordinator any more.
    pub(crate) fn disconnect(&mut self, process: Process) {
        self.proc(process).open = false;
        if self.procs[usize::from(process)].reach == Reach::Remote {
            self.proc(process).close_current();
            self.enter(process, client::Event::Unlinked);
        }
        if self.serves(process).is_some() {
            self.end_term(process);
        }
    }

    pub(crate) fn holder(&self, key: &Key) -> Holder {
        self.shared.locks[key_number(key)]
    }
}

impl Proc {
    pub(crate) fn forget_ended(&mut self) {
        self.conns.retain(|conn| conn.client_end || conn.server_end);
    }

    /// The client closes its connection. What it had written arrives.
    pub(crate) fn close_current(&mut self) {
        self.reach = Reach::None;
        self.linked = None;
        if let Some(conn) = self.conns.iter_mut().find(|conn| conn.client_end) {
            conn.client_end = false;
            conn.cut = false;
            conn.full = false;
            conn.down.clear();
            conn.backlog.clear();
            conn.told.clear();
        }
        self.forget_ended();
    }
}

impl Turn<'_> {
    pub(crate) fn client(&mut self, now: Duration, event: client::Event) {
        self.world.tell(|| format!("    client {} <- {event:?}", self.process));
        if let client::Event::Received(Response::Ack { id }) = &event {
            let by = self.listens_to().expect("it is linked");
            let process = self.process;
            self.world.oracle().acknowledged(process, *id, by);
        }
        if let client::Event::LandWritten { entry } = &event {
            let with = self.listens_to().expect("it is linked");
            let process = self.process;
            self.world.oracle().landed(process, *entry, with);
        }
        if let client::Event::Received(Response::Joined { .. }) = &event {
            self.answering = Some(Answering::Joined);
        }
        self.client.handle(now, event);
    }

    pub(crate) fn coordinator(&mut self, now: Duration, event: coordinator::Event) {
        let Some(machine) = &mut self.coordinator else { return };
        self.world.tell(|| format!("    coordinator {} <- {event:?}", self.process));
        if let coordinator::Event::Received { request, .. } = &event {
            self.answering = match request {
                Request::Rejoin { .. } => Some(Answering::Rejoin),
                Request::Cancel { .. } => Some(Answering::Cancel),
                _ => None,
            };
        }
        let grants = |machine: &Coordinator| {
            machine.report(NOW).flights.iter().any(|flight| flight.phase == single_flight::FlightPhase::Granted)
        };
        let granted = self.answering == Some(Answering::Cancel) && grants(machine);
        let parted = matches!(event, coordinator::Event::Disconnected { .. });
        machine.handle(now, event);
        if granted && !grants(machine) {
            self.world.notice(Sometimes::WithdrawnBeforeBegan);
        }
        if parted {
            let orphaned = |flight: &single_flight::FlightStatus| {
                flight.phase == single_flight::FlightPhase::Orphaned && flight.joiners > 0
            };
            if machine.report(NOW).flights.iter().any(orphaned) {
                self.world.notice(Sometimes::JoinedWhileOrphaned);
            }
        }
    }

    fn pump(&mut self) {
        loop {
            if let Some(action) = self.client.poll_action() {
                self.act_for_client(action);
            } else if let Some(action) = self.coordinator.as_mut().and_then(Coordinator::poll_action) {
                self.act_for_coordinator(action);
            } else if let Some(event) = self.flushed() {
                self.coordinator(NOW, event);
            } else if let Some(entry) = self.landed.pop() {
                self.client(NOW, client::Event::LandWritten { entry });
            } else {
                break;
            }
        }
    }

    /// What the sockets took, after all was written.
    fn flushed(&mut self) -> Option<coordinator::Event> {
        if let Some(link) = self.blocked.pop() {
            return Some(coordinator::Event::Backlog { link, bytes: 1, written: 1 });
        }
        let (link, delivery) = self.delivered.pop()?;
        Some(coordinator::Event::Delivered { link, delivery })
    }

    fn act_for_client(&mut self, action: client::Action) {
        self.world.tell(|| format!("      {action:?}"));
        let process = self.process;
        match action {
            client::Action::TryLock { entry, key } => {
                let free = self.world.holder(&key) == Holder::Nobody;
                let look = if free && !std::mem::take(&mut self.collide) {
                    self.world.shared().locks[key_number(&key)] = Holder::Entry(process, entry);
                    Look::Taken
                } else {
                    Look::Busy
                };
                self.client(NOW, client::Event::Locked { entry, look });
            }
            client::Action::Unlock { entry } => self.unlock(entry),
            client::Action::CheckLock { entry } => {
                let current = !self.world.shared.outdated.contains(&(process, entry));
                self.client(NOW, client::Event::LockChecked { entry, current });
            }
            client::Action::Send { request, written } => self.send_request(request, written),
            client::Action::Start { entry, call, token } => {
                let sole = !self.world.shared.outdated.contains(&(process, entry));
                let started = self.world.oracle().started(process, entry, call, token, sole);
                self.world.judge(started);
                let seen = self.client.highest_epoch();
                if seen.is_some_and(|seen| token.epoch() < seen) {
                    self.world
                        .judge(Err(Broken::new(2, format!("{token:?} is below an epoch that its leader has seen"))));
                }
            }
            client::Action::Joined { call, flight } => {
                if flight.pid == crate::world::pid(usize::from(process)) {
                    self.world.notice(Sometimes::LocalJoiner);
                }
                let joined = self.world.oracle().joined(call, flight.token);
                self.world.judge(joined);
            }
            client::Action::Deliver { call, verdict } => self.deliver(call, &verdict),
            client::Action::LoseLease { entry } => {
                let sole = !self.world.shared.outdated.contains(&(process, entry));
                let lost = self.world.oracle().lease_lost(process, entry, sole, false);
                self.world.judge(lost);
            }
            client::Action::Want(wants) => self.world.proc(process).wants = wants,
            client::Action::Closed { .. } => self.leaves = true,
            client::Action::Silent { .. } | client::Action::Heard | client::Action::Status { .. } => {}
        }
    }

    fn unlock(&mut self, entry: RequestId) {
        let held = (self.process, entry);
        let shared = self.world.shared();
        if let Some(at) = shared.outdated.iter().position(|outdated| *outdated == held) {
            shared.outdated.remove(at);
        } else if let Some(lock) = shared.locks.iter_mut().find(|lock| **lock == Holder::Entry(held.0, held.1)) {
            *lock = Holder::Nobody;
        } else {
            self.world.judge(Err(Broken::new(9, format!("entry {entry} unlocks what it does not hold"))));
        }
    }

    fn deliver(&mut self, call: client::CallId, verdict: &Verdict) {
        match verdict {
            Verdict::Landed { token, joined: true, .. }
                if self.client.highest_epoch().is_some_and(|epoch| token.epoch() < epoch) =>
            {
                self.world.notice(Sometimes::OutcomeAfterFailover);
            }
            Verdict::Interrupted { .. } => self.world.notice(Sometimes::Interrupted),
            Verdict::LeaseLost { .. } => self.world.notice(Sometimes::LeaseLost),
            _ => {}
        }
        let unheard = self.client_untold();
        let by = self.listens_to();
        let judged = self.world.oracle().verdict(call, verdict, unheard, by);
        self.world.judge(judged);
    }

    /// The epoch of the coordinator that this process is linked to.
    fn listens_to(&self) -> Option<Epoch> {
        self.world.procs[usize::from(self.process)].linked
    }

    /// Whether a landing of this process has not reached the kernel.
    fn client_untold(&self) -> bool {
        !self.world.procs[usize::from(self.process)].untold.is_empty()
    }

    fn send_request(&mut self, request: Request, written: Option<RequestId>) {
        if self.answering == Some(Answering::Joined) && matches!(request, Request::Cancel { .. }) {
            self.world.notice(Sometimes::Merged);
        }
        match self.world.procs[usize::from(self.process)].reach {
            Reach::Local => {
                let current = self.world.serves(self.process).is_some_and(|serving| serving.current);
                let event = coordinator::Event::Received { link: Link::LOCAL, request, term_is_current: current };
                self.coordinator(NOW, event);
                if let Some(entry) = written {
                    self.client(NOW, client::Event::LandWritten { entry });
                }
            }
            Reach::Remote => {
                let proc = self.world.proc(self.process);
                let conn = proc.conns.iter_mut().find(|conn| conn.client_end).expect("it is connected");
                let taken = conn.takes_requests();
                if taken {
                    conn.up.push(Once::new(request));
                }
                if let Some(entry) = written {
                    proc.untold.retain(|untold| *untold != entry);
                    if taken {
                        self.landed.push(entry);
                    } else {
                        proc.untold.push(entry);
                    }
                }
            }
            Reach::None => {}
        }
    }

    fn act_for_coordinator(&mut self, action: coordinator::Action) {
        self.world.tell(|| format!("      {action:?}"));
        match action {
            coordinator::Action::Send { link, response, delivery } => {
                self.judge_answer(link, &response);
                if link == Link::LOCAL {
                    self.client(NOW, client::Event::Received(response));
                    if let Some(delivery) = delivery {
                        self.coordinator(NOW, coordinator::Event::Delivered { link, delivery });
                    }
                } else {
                    self.send_response(link, response, delivery);
                }
            }
            coordinator::Action::Close { link, reason } => {
                if let Some((owner, at)) = self.world.conn_of(self.process, link) {
                    let conn = &mut self.world.proc(owner).conns[at];
                    conn.cut = true;
                    conn.full = false;
                    conn.backlog.clear();
                    conn.told.clear();
                }
                if reason == coordinator::CloseReason::Stalled {
                    self.world.notice(Sometimes::ClosedTheStalled);
                }
            }
            coordinator::Action::ReadDry { link, ticket } => self.read_dry(link, ticket),
            coordinator::Action::Probe { key } => {
                let free = self.world.holder(&key) == Holder::Nobody;
                self.coordinator(NOW, coordinator::Event::Probed { key, free });
            }
            coordinator::Action::Resign { .. } => self.ends = true,
        }
    }

    fn read_dry(&mut self, link: Option<Link>, ticket: u64) {
        let server = self.process;
        let mut before = Vec::new();
        for proc in &self.world.procs {
            for conn in proc.conns.iter().filter(|conn| conn.server == server && conn.server_end) {
                let ended = conn.cut || !conn.client_end;
                if link.is_none_or(|link| conn.link == link) && (ended || !conn.up.is_empty()) {
                    let requests = u8::try_from(conn.up.len()).expect("a short queue");
                    before.push((conn.link, requests + u8::from(ended)));
                }
            }
        }
        if let Some(serving) = self.world.serving(server) {
            serving.drying.push((ticket, before));
        }
    }

    fn send_response(&mut self, link: Link, response: Response, delivery: Option<u64>) {
        let Some((owner, at)) = self.world.conn_of(self.process, link) else { return };
        let conn = &mut self.world.proc(owner).conns[at];
        if !conn.takes_responses() {
            return;
        }
        match &response {
            Response::Joined { id, token, .. } => conn.told.push((*id, *token)),
            Response::Landed { id, .. } | Response::Interrupted { id, .. } if !conn.full => {
                conn.told.retain(|(told, _)| told != id);
            }
            _ => {}
        }
        let response = Once::new(response);
        if conn.full {
            conn.backlog.push((response, delivery));
            if !self.blocked.contains(&link) {
                self.blocked.push(link);
            }
        } else {
            conn.down.push(response);
            self.delivered.extend(delivery.map(|delivery| (link, delivery)));
        }
    }

    /// Promise 4, at the moment of the acknowledgement.
    fn judge_answer(&mut self, link: Link, response: &Response) {
        match response {
            Response::Hold { .. } => self.world.notice(Sometimes::Hold),
            Response::Landed { .. } if self.answering == Some(Answering::Rejoin) => {
                self.world.notice(Sometimes::KeptOutcomeUsed);
            }
            Response::Ack { id } => {
                let server = self.process;
                let leader = match self.world.conn_of(server, link) {
                    Some((owner, _)) => owner,
                    None if link == Link::LOCAL => server,
                    None => return,
                };
                let flight = self.world.oracle().flight_of(leader, *id).filter(|flight| !flight.expired);
                let Some(token) = flight.map(|flight| flight.token) else { return };
                let waits = self.world.procs.iter().any(|proc| {
                    proc.conns.iter().any(|conn| {
                        conn.server == server
                            && conn.takes_responses()
                            && conn.told.iter().any(|(_, told)| *told == token)
                    })
                });
                if waits {
                    let how = format!("the landing of {token:?} is acknowledged before a joiner has it");
                    self.world.judge(Err(Broken::new(4, how)));
                }
            }
            _ => {}
        }
    }
}
