//! Carries out what the machines want, in the order in which the library's driver does.

use crate::oracle::{Broken, value_of};
use crate::world::{Happening, Holder, Sim, Work};
use single_flight::machines::client::{self, Look, Verdict};
use single_flight::machines::coordinator::{self, Link};
use single_flight::machines::protocol::{Request, RequestId, Response};
use std::time::Duration;

impl Sim {
    pub(crate) fn enter(&mut self, process: usize, event: client::Event) {
        self.client(process, event);
        self.pump(process);
    }

    pub(crate) fn coordinate(&mut self, process: usize, event: coordinator::Event) {
        self.coordinator(process, event);
        self.pump(process);
    }

    pub(crate) fn client(&mut self, process: usize, event: client::Event) {
        self.tell(|_| format!("client {process} <- {event:?}"));
        match &event {
            client::Event::LandWritten { entry } => {
                let with = self.linked(process).expect("it is linked");
                self.oracle.landed(Sim::number(process), *entry, with);
            }
            client::Event::Received(Response::Ack { id }) => {
                let by = self.linked(process).expect("it is linked");
                self.oracle.acknowledged(Sim::number(process), *id, by);
            }
            _ => {}
        }
        let now = self.time();
        self.procs[process].client.handle(now, event);
    }

    pub(crate) fn coordinator(&mut self, process: usize, event: coordinator::Event) {
        self.tell(|_| format!("coordinator {process} <- {event:?}"));
        let now = self.time();
        if let Some(serving) = self.procs[process].serving.as_mut() {
            serving.machine.handle(now, event);
        }
    }

    /// Drains both machines of a process, then lets the kernel take what was written, until nothing follows any more.
    pub(crate) fn pump(&mut self, process: usize) {
        let mut touched = Vec::new();
        let (mut ends, mut leaves) = (false, false);
        loop {
            if let Some(action) = self.procs[process].client.poll_action() {
                leaves |= self.act_for_client(process, action, &mut touched);
            } else if let Some(action) =
                self.procs[process].serving.as_mut().and_then(|serving| serving.machine.poll_action())
            {
                ends |= self.act_for_coordinator(process, action, &mut touched);
            } else if let Some(conn) = touched.pop() {
                self.flush(process, conn);
            } else {
                break;
            }
        }
        if ends {
            self.end_term(process);
        }
        if leaves {
            self.disconnect(process);
        }
        self.arm(process);
    }

    /// The service thread wakes at the earliest time that a machine wants.
    fn arm(&mut self, process: usize) {
        let proc = &mut self.procs[process];
        let serving = proc.serving.as_ref().and_then(|serving| serving.machine.poll_timeout());
        let Some(at) = [proc.client.poll_timeout(), serving].into_iter().flatten().min() else { return };
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        if proc.armed.is_none_or(|armed| at < armed) {
            proc.armed = Some(at);
            let wait = at.saturating_sub(self.now);
            self.after(wait, Happening::Wake(process));
        }
    }

    fn act_for_client(&mut self, process: usize, action: client::Action, touched: &mut Vec<usize>) -> bool {
        self.tell(|_| format!("    client {process}: {action:?}"));
        let number = Sim::number(process);
        match action {
            client::Action::TryLock { entry, key } => {
                let at = self.key_number(&key);
                let collides = self.mix.collisions > 0 && self.is_stormy() && self.random.once_in(self.mix.collisions);
                let look = if self.locks[at] == Holder::Nobody && !collides {
                    self.locks[at] = Holder::Entry(process, entry);
                    Look::Taken
                } else {
                    Look::Busy
                };
                self.client(process, client::Event::Locked { entry, look });
            }
            client::Action::Unlock { entry } => self.unlock(process, entry),
            client::Action::CheckLock { entry } => {
                let current = !self.outdated.contains(&(process, entry));
                self.client(process, client::Event::LockChecked { entry, current });
            }
            client::Action::Send { request, written } => self.send_request(process, request, written, touched),
            client::Action::Start { entry, call, token } => {
                let sole = !self.outdated.contains(&(process, entry));
                let started = self.oracle.started(number, entry, call, token, sole);
                self.judge(started);
                self.figures.flights += 1;
                let key = self.oracle.flight_of(number, entry).map(|flight| flight.key.clone());
                let key = key.map_or(0, |key| self.key_number(&key));
                let nests = self.mix.nested > 0 && key + 1 < self.keys.len() && self.random.once_in(self.mix.nested);
                self.procs[process].works.push(Work { entry, key, nests, waits_for: None });
                self.later(1_000, self.mix.work, Happening::Work { process, entry });
            }
            client::Action::Joined { call, flight } => {
                let joined = self.oracle.joined(call, flight.token);
                self.judge(joined);
            }
            client::Action::Deliver { call, verdict } => self.deliver(process, call, &verdict),
            client::Action::LoseLease { entry } => {
                let sole = !self.outdated.contains(&(process, entry));
                let lost = self.oracle.lease_lost(number, entry, sole, false);
                self.judge(lost);
            }
            client::Action::Want(wants) => {
                self.procs[process].wants = wants;
                self.seek(process);
            }
            client::Action::Closed { .. } => return true,
            client::Action::Silent { .. } | client::Action::Heard | client::Action::Status { .. } => {}
        }
        false
    }

    fn unlock(&mut self, process: usize, entry: RequestId) {
        if let Some(at) = self.outdated.iter().position(|outdated| *outdated == (process, entry)) {
            self.outdated.swap_remove(at);
        } else if let Some(lock) = self.locks.iter_mut().find(|lock| **lock == Holder::Entry(process, entry)) {
            *lock = Holder::Nobody;
        } else {
            self.judge(Err(Broken::new(9, format!("entry {entry} unlocks what it does not hold"))));
        }
    }

    fn deliver(&mut self, process: usize, call: client::CallId, verdict: &Verdict) {
        match verdict {
            Verdict::Landed { joined: true, .. } => self.figures.joined += 1,
            Verdict::Interrupted { .. } => self.figures.interrupted += 1,
            _ => {}
        }
        // A leader may have been told because nothing took its landing: then nobody else need know of it.
        let own = |landed: &crate::oracle::Flight| landed.process == Sim::number(process) && landed.landed.is_none();
        let unheard = match verdict {
            Verdict::Landed { token, joined: false, .. } => {
                self.oracle.flights.iter().any(|flight| flight.token == *token && own(flight))
            }
            _ => false,
        };
        let by = self.linked(process);
        let judged = self.oracle.verdict(call, verdict, unheard, by);
        self.judge(judged);
        // A work that waited for this call goes on.
        let waiting = self.procs[process].works.iter_mut().find(|work| work.waits_for == Some(call));
        if let Some(work) = waiting {
            work.waits_for = None;
            let entry = work.entry;
            self.later(1_000, self.mix.work, Happening::Work { process, entry });
        }
    }

    fn send_request(&mut self, process: usize, request: Request, written: Option<RequestId>, touched: &mut Vec<usize>) {
        if self.procs[process].local {
            let term_is_current = self.procs[process].serving.as_ref().is_some_and(|serving| serving.current);
            self.coordinator(process, coordinator::Event::Received { link: Link::LOCAL, request, term_is_current });
            if let Some(entry) = written {
                self.client(process, client::Event::LandWritten { entry });
            }
        } else if let Some(at) = self.procs[process].conn {
            let size = self.size_of_request(&request);
            let conn = &mut self.conns[at];
            let position = conn.up.queue(request, size);
            conn.landings.extend(written.map(|entry| (position, entry)));
            if !touched.contains(&at) {
                touched.push(at);
            }
        }
    }

    fn size_of_request(&self, request: &Request) -> u64 {
        match request {
            Request::Land { token, .. } => 150 + self.size_of_payload(token.as_u64()),
            _ => 90,
        }
    }

    pub(crate) fn size_of_payload(&self, token: u64) -> u64 {
        8 + token.wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.mix.payload
    }

    fn act_for_coordinator(&mut self, process: usize, action: coordinator::Action, touched: &mut Vec<usize>) -> bool {
        self.tell(|_| format!("    coordinator {process}: {action:?}"));
        match action {
            coordinator::Action::Send { link, response, delivery } => {
                self.judge_acknowledgement(process, link, &response);
                if link == Link::LOCAL {
                    self.client(process, client::Event::Received(response));
                    if let Some(delivery) = delivery {
                        self.coordinator(process, coordinator::Event::Delivered { link, delivery });
                    }
                } else {
                    self.send_response(process, link, response, delivery, touched);
                }
            }
            coordinator::Action::Close { link, .. } => {
                let peer = self.procs[process].serving.as_ref().and_then(|serving| serving.peers.get(&link).copied());
                if let Some(at) = peer {
                    self.conns[at].cut = true;
                    self.conns[at].up.end();
                    self.conns[at].down.end();
                    self.conns[at].told.clear();
                    self.alarm(at, true);
                    self.alarm(at, false);
                }
            }
            coordinator::Action::ReadDry { link, ticket } => {
                let known = |link: Link| {
                    self.procs[process].serving.as_ref().is_some_and(|serving| serving.peers.contains_key(&link))
                };
                if link.is_some_and(|link| !known(link)) {
                    self.coordinator(process, coordinator::Event::Dry { ticket });
                } else {
                    let link = link.map(|link| link.0);
                    self.later(100, 3_000, Happening::Dry { process, ticket, link });
                }
            }
            coordinator::Action::Probe { key } => {
                let free = self.locks[self.key_number(&key)] == Holder::Nobody;
                self.coordinator(process, coordinator::Event::Probed { key, free });
            }
            coordinator::Action::Resign { .. } => return true,
        }
        false
    }

    fn send_response(
        &mut self,
        process: usize,
        link: Link,
        response: Response,
        delivery: Option<u64>,
        touched: &mut Vec<usize>,
    ) {
        let peer = self.procs[process].serving.as_ref().and_then(|serving| serving.peers.get(&link).copied());
        let Some(at) = peer else { return };
        if self.conns[at].cut || !self.conns[at].client_end {
            return;
        }
        let size = match &response {
            Response::Landed { token, .. } => 120 + self.size_of_payload(token.as_u64()),
            _ => 80,
        };
        let conn = &mut self.conns[at];
        let answered = match &response {
            Response::Joined { id, token, .. } => {
                conn.told.push((*id, *token, None));
                None
            }
            Response::Landed { id, .. } => Some(*id),
            Response::Interrupted { id, .. } => {
                conn.told.retain(|(told, ..)| told != id);
                None
            }
            _ => None,
        };
        let position = conn.down.queue(response, size);
        for told in conn.told.iter_mut().filter(|(id, ..)| Some(*id) == answered) {
            told.2 = Some(position);
        }
        conn.deliveries.extend(delivery.map(|delivery| (position, delivery)));
        if !touched.contains(&at) {
            touched.push(at);
        }
    }

    /// Promise 4, at the moment of the acknowledgement.
    fn judge_acknowledgement(&mut self, process: usize, link: Link, response: &Response) {
        let Response::Ack { id } = response else { return };
        let Some(serving) = self.procs[process].serving.as_ref() else { return };
        let leader = match serving.peers.get(&link) {
            Some(at) => self.conns[*at].client,
            None if link == Link::LOCAL => process,
            None => return,
        };
        let token = self.oracle.flight_of(Sim::number(leader), *id).map(|flight| flight.token);
        let Some(token) = token else { return };
        let serving = self.procs[process].serving.as_ref().expect("just seen");
        let waits = serving.peers.values().map(|at| &self.conns[*at]).any(|conn| {
            let missing = |(_, told, end): &(RequestId, _, Option<u64>)| {
                *told == token && end.is_none_or(|end| end > conn.down.written())
            };
            conn.client_end && !conn.cut && conn.told.iter().any(missing)
        });
        if waits {
            self.judge(Err(Broken::new(4, format!("the landing of {token:?} is acknowledged before a joiner has it"))));
        }
    }

    /// The kernel takes what was written, and the machines hear what they wait for.
    pub(crate) fn flush(&mut self, process: usize, at: usize) {
        let now_server = self.conns[at].server == process && self.conns[at].accepted;
        // A process may be connected to itself only by calls, so its role is clear.
        if now_server && self.conns[at].server_end {
            if self.conns[at].down.flush() {
                self.alarm(at, false);
            }
            let conn = &mut self.conns[at];
            conn.told.retain(|(_, _, end)| end.is_none_or(|end| end > conn.down.written()));
            let (written, bytes, link) = (conn.down.written(), conn.down.backlog(), conn.link);
            let delivered: Vec<u64> =
                conn.deliveries.extract_if(.., |(end, _)| *end <= written).map(|(_, number)| number).collect();
            if bytes > 0 || conn.backlogged {
                conn.backlogged = bytes > 0;
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                self.coordinator(process, coordinator::Event::Backlog { link, bytes, written });
            }
            for delivery in delivered {
                self.coordinator(process, coordinator::Event::Delivered { link, delivery });
            }
        } else if self.conns[at].client == process && self.conns[at].client_end {
            if self.conns[at].cut || !self.conns[at].server_end {
                return;
            }
            if self.conns[at].up.flush() {
                self.alarm(at, true);
            }
            let conn = &mut self.conns[at];
            let (written, bytes) = (conn.up.written(), conn.up.backlog());
            let landed: Vec<RequestId> =
                conn.landings.extract_if(.., |(end, _)| *end <= written).map(|(_, entry)| entry).collect();
            for entry in landed {
                self.client(process, client::Event::LandWritten { entry });
            }
            if bytes > 0 {
                self.client(process, client::Event::Progress);
            }
        }
    }

    /// Something can be read at that end, or nothing more will come.
    pub(crate) fn alarm(&mut self, at: usize, server: bool) {
        if !std::mem::replace(&mut self.conns[at].alarmed[usize::from(server)], true) {
            self.later(1_000, self.mix.latency, Happening::Readable { conn: at, server });
        }
    }

    pub(crate) fn work_ends(&mut self, process: usize, entry: RequestId, aborted: bool) {
        let number = Sim::number(process);
        self.procs[process].works.retain(|work| work.entry != entry);
        let Some(flight) = self.oracle.flight_of(number, entry) else { return };
        let outcome = value_of(flight.token);
        self.oracle.ended(number, entry, aborted);
        let long = self.mix.long_leases > 0 && self.random.once_in(self.mix.long_leases);
        let first = self.random.once_in(2);
        if !long && first {
            self.oracle.lease_dropped(number, entry);
            self.client(process, client::Event::LeaseDropped { entry });
        }
        let event = if aborted { client::Event::Aborted { entry } } else { client::Event::Ended { entry, outcome } };
        self.enter(process, event);
        if !long && !first {
            self.oracle.lease_dropped(number, entry);
            self.enter(process, client::Event::LeaseDropped { entry });
        } else if long {
            self.later(1_000, self.mix.work, Happening::DropLease { process, entry });
        }
    }
}

/// How long a call waits that has a deadline.
pub(crate) fn deadline(now: Duration, wait: u64) -> Option<Duration> {
    now.checked_add(Duration::from_nanos(wait))
}
