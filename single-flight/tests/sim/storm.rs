//! The faults.

use crate::mix::Fault;
use crate::world::{Happening, Holder, Sim};
use single_flight::machines::client::{self, OwnerId};

const MILLI: u64 = 1_000_000;

impl Sim {
    fn living(&self) -> Vec<usize> {
        let mut living: Vec<usize> = self.slots.iter().copied().filter(|process| self.procs[*process].alive).collect();
        living.dedup();
        living
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        let living = self.living();
        let Some(victim) = self.random.pick(&living).copied() else { return };
        let awake = !self.procs[victim].frozen;
        match fault {
            Fault::Crash => self.crash(victim, None),
            Fault::CrashCoordinator => {
                if let Some(server) = self.term {
                    self.crash(server, None);
                }
            }
            Fault::CrashLeavingChild => {
                let leaders: Vec<(usize, usize)> = self
                    .oracle
                    .flights
                    .iter()
                    .filter(|flight| flight.runs && flight.sole)
                    .map(|flight| (usize::from(flight.process), self.key_number(&flight.key)))
                    .filter(|(process, key)| matches!(self.locks[*key], Holder::Entry(of, _) if of == *process))
                    .collect();
                if let Some((process, key)) = self.random.pick(&leaders).copied() {
                    self.crash(process, Some(key));
                }
            }
            Fault::Freeze => self.freeze(victim),
            Fault::FreezeCoordinator => {
                if let Some(server) = self.term {
                    self.freeze(server);
                }
            }
            Fault::Break => {
                if let Some(at) = self.procs[victim].conn {
                    self.tell(|_| format!("the connection of process {victim} breaks"));
                    let conn = &mut self.conns[at];
                    conn.cut = true;
                    conn.up.end();
                    conn.down.end();
                    conn.told.clear();
                    self.alarm(at, true);
                    self.alarm(at, false);
                }
            }
            Fault::Leave => {
                let calls: Vec<_> = self.oracle.calls.iter().map(|call| (call.process, call.id)).collect();
                if let Some((process, call)) = self.random.pick(&calls).copied() {
                    let process = usize::from(process);
                    let nested = self.procs[process].works.iter().any(|work| work.waits_for == Some(call));
                    if !self.procs[process].frozen && !nested {
                        self.oracle.left(call);
                        self.enter(process, client::Event::Leave { call });
                    }
                }
            }
            Fault::Close if awake && self.procs[victim].open => {
                let told = self.linked(victim);
                self.oracle.closed(Sim::number(victim), told);
                self.enter(victim, client::Event::Close { owner: OwnerId(0) });
            }
            Fault::Abort if awake => {
                let works: Vec<u64> = self.procs[victim].works.iter().map(|work| work.entry).collect();
                if let Some(entry) = self.random.pick(&works).copied() {
                    self.work_ends(victim, entry, true);
                }
            }
            Fault::Resign => {
                if let Some(server) = self.term.filter(|server| !self.procs[*server].frozen) {
                    self.end_term(server);
                    self.pump(server);
                }
            }
            Fault::PowerLoss => {
                self.tell(|_| "the power fails".into());
                for process in 0..self.procs.len() {
                    self.crash(process, None);
                }
                for key in 0..self.locks.len() {
                    if self.locks[key] == Holder::Child {
                        self.happen(Happening::ChildEnds { key });
                    }
                }
                self.epoch = self.durable_epoch;
            }
            Fault::ReplaceLock => {
                let key = self.random.below(self.keys.len() as u64) as usize;
                if let Holder::Entry(process, entry) = self.locks[key] {
                    self.tell(|sim| format!("somebody replaces the lock file of {}", sim.keys[key]));
                    self.outdated.push((process, entry));
                    self.oracle.lock_replaced(Sim::number(process), entry);
                    self.locks[key] = Holder::Nobody;
                }
            }
            Fault::ReplaceTerm => {
                if let Some(server) = self.term {
                    self.tell(|_| "somebody replaces flight.lock and removes the socket".into());
                    if let Some(serving) = self.procs[server].serving.as_mut() {
                        serving.current = false;
                        self.later(MILLI, 1000 * MILLI, Happening::NoticeTerm(server));
                    }
                    self.term = None;
                    self.published = None;
                }
            }
            Fault::DiskFull => {
                self.disk_full = true;
                self.later(MILLI, 3000 * MILLI, Happening::DiskFree);
            }
            Fault::Close | Fault::Abort => {}
        }
    }

    fn freeze(&mut self, process: usize) {
        if self.procs[process].frozen || !self.procs[process].alive {
            return;
        }
        self.tell(|_| format!("process {process} is frozen"));
        self.procs[process].frozen = true;
        self.later(1, self.mix.frozen, Happening::Thaw(process));
    }
}
