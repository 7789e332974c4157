//! What can happen next in a world, and what it does.

use crate::oracle::Process;
use crate::world::{Holder, NOW, Reach, World};
use single_flight::machines::client::CallId;
use single_flight::machines::coordinator::{Link, STALL};
use single_flight::machines::protocol::RequestId;

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Call {
        process: Process,
        key: u8,
        collide: bool,
    },
    Leave {
        process: Process,
        call: CallId,
    },
    Close {
        process: Process,
    },
    End {
        process: Process,
        entry: RequestId,
    },
    Abort {
        process: Process,
        entry: RequestId,
    },
    DropLease {
        process: Process,
        entry: RequestId,
    },
    Read {
        process: Process,
        collide: bool,
    },
    ReadEnd {
        process: Process,
    },
    Connect {
        process: Process,
    },
    Elect {
        process: Process,
    },
    /// The timer of the leaders' looks at their locks.
    Check {
        process: Process,
    },
    /// The timer of landings that the kernel does not take.
    Tell {
        process: Process,
    },
    NoticeDirectory {
        process: Process,
    },
    Serve {
        server: Process,
        client: Process,
        conn: u8,
    },
    ServeEnd {
        server: Process,
        client: Process,
        conn: u8,
    },
    Dry {
        server: Process,
        at: u8,
    },
    Look {
        server: Process,
    },
    Stall {
        server: Process,
    },
    NoticeTerm {
        server: Process,
    },
    Expire {
        server: Process,
    },
    Resign {
        server: Process,
    },
    Crash {
        process: Process,
        child: Option<u8>,
    },
    ChildEnds {
        key: u8,
    },
    Break {
        process: Process,
    },
    Fill {
        process: Process,
    },
    Drain {
        process: Process,
    },
    ReplaceLock {
        key: u8,
    },
    ReplaceTerm,
    ReplaceDirectory,
    RestoreEpoch,
}

impl Step {
    /// Something that need not happen.
    pub(crate) fn is_fault(self) -> bool {
        matches!(
            self,
            Step::Call { .. }
                | Step::Leave { .. }
                | Step::Close { .. }
                | Step::Abort { .. }
                | Step::Read { collide: true, .. }
                | Step::Tell { .. }
                | Step::Expire { .. }
                | Step::Resign { .. }
                | Step::Crash { .. }
                | Step::Break { .. }
                | Step::Fill { .. }
                | Step::ReplaceLock { .. }
                | Step::ReplaceTerm
                | Step::ReplaceDirectory
                | Step::RestoreEpoch
        )
    }

    /// A work or a lease ends. It will, but nobody may count on when.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Step::End { .. } | Step::DropLease { .. } | Step::ChildEnds { .. })
    }

    /// Whose turn it is, when it is the turn of one process.
    pub(crate) fn of(self) -> Option<Process> {
        match self {
            Step::Read { process, .. }
            | Step::ReadEnd { process }
            | Step::Connect { process }
            | Step::Elect { process }
            | Step::Check { process }
            | Step::NoticeDirectory { process }
            | Step::Drain { process }
            | Step::End { process, .. }
            | Step::DropLease { process, .. } => Some(process),
            Step::Serve { server, .. }
            | Step::ServeEnd { server, .. }
            | Step::Dry { server, .. }
            | Step::Look { server }
            | Step::Stall { server }
            | Step::NoticeTerm { server } => Some(server),
            _ => None,
        }
    }
}

impl World {
    pub(crate) fn steps(&self, steps: &mut Vec<Step>) {
        let left = &self.shared.left;
        for (number, proc) in self.procs.iter().enumerate() {
            let process = number as Process;
            if !proc.alive {
                continue;
            }
            self.steps_of_calls(process, steps);
            if proc.reach == Reach::Remote {
                let conn = proc.conns.iter().find(|conn| conn.client_end).expect("it is connected");
                if !conn.down.is_empty() {
                    steps.push(Step::Read { process, collide: false });
                    if left.collisions > 0 && self.is_looked_at() {
                        steps.push(Step::Read { process, collide: true });
                    }
                } else if conn.cut || !conn.server_end {
                    steps.push(Step::ReadEnd { process });
                }
                if left.breaks > 0 && conn.takes_requests() {
                    steps.push(Step::Break { process });
                }
                if left.clogs > 0 && !conn.full && conn.takes_responses() {
                    steps.push(Step::Fill { process });
                }
                if conn.full {
                    steps.push(Step::Drain { process });
                }
            }
            if proc.open && proc.wants && proc.reach == Reach::None && !proc.astray {
                // Two connections of one client at a coordinator: the old one is not read to its end yet. More is the same.
                if self.shared.published.is_some() && proc.conns.len() < 2 {
                    steps.push(Step::Connect { process });
                }
                if self.shared.term.is_none() && self.serves(process).is_none() {
                    steps.push(Step::Elect { process });
                }
            }
            if proc.astray {
                steps.push(Step::NoticeDirectory { process });
            }
            if self.shared.outdated.iter().any(|(of, _)| *of == process) {
                steps.push(Step::Check { process });
            }
            if left.untaken > 0 && !proc.untold.is_empty() {
                steps.push(Step::Tell { process });
            }
            let called = self.made(process) > 0;
            if left.crashes > 0 && called {
                steps.push(Step::Crash { process, child: None });
            }
            if left.closes > 0 && proc.open && called {
                steps.push(Step::Close { process });
            }
        }
        for flight in self.oracle.flights.iter().filter(|flight| flight.is_active()) {
            let process = flight.process;
            let number = crate::world::key_number(&flight.key) as u8;
            if !self.procs[usize::from(process)].alive {
                continue;
            }
            if flight.runs {
                steps.push(Step::End { process, entry: flight.entry });
                if left.aborts > 0 {
                    steps.push(Step::Abort { process, entry: flight.entry });
                }
                if left.orphaned_children > 0 && flight.sole {
                    steps.push(Step::Crash { process, child: Some(number) });
                }
            } else {
                steps.push(Step::DropLease { process, entry: flight.entry });
            }
        }
        self.steps_of_terms(steps);
        self.steps_of_directories(steps);
    }

    fn steps_of_calls(&self, process: Process, steps: &mut Vec<Step>) {
        let left = &self.shared.left;
        let proc = &self.procs[usize::from(process)];
        let waiting = self.oracle.calls.iter().filter(|call| call.process == process).count();
        // Processes that may do the same are numbered in the order in which they first call.
        let like = |other: usize| left.calls[other] == left.calls[usize::from(process)];
        let first = self.made(process) > 0
            || (0..usize::from(process)).all(|other| self.made(other as Process) > 0 || !like(other));
        if proc.open && first && left.calls[usize::from(process)] > 0 && waiting < usize::from(left.together) {
            for key in 0..left.keys {
                steps.push(Step::Call { process, key, collide: false });
                if left.collisions > 0 && self.is_looked_at() {
                    steps.push(Step::Call { process, key, collide: true });
                }
            }
        }
        if left.leaves > 0 {
            for call in self.oracle.calls.iter().filter(|call| call.process == process) {
                steps.push(Step::Leave { process, call: call.id });
            }
        }
    }

    fn steps_of_terms(&self, steps: &mut Vec<Step>) {
        let left = &self.shared.left;
        for (number, serving) in self.terms.0.iter().enumerate() {
            let (server, Some(serving)) = (number as Process, serving) else { continue };
            let mut stalls = false;
            for (client, proc) in self.procs.iter().enumerate() {
                for (at, conn) in proc.conns.iter().enumerate() {
                    if conn.server != server || !conn.server_end {
                        continue;
                    }
                    let (client, conn_at) = (client as Process, at as u8);
                    if !conn.up.is_empty() {
                        steps.push(Step::Serve { server, client, conn: conn_at });
                    } else if conn.cut || !conn.client_end {
                        steps.push(Step::ServeEnd { server, client, conn: conn_at });
                    }
                    stalls |= !conn.backlog.is_empty();
                }
            }
            for (at, (_, before)) in serving.drying.iter().enumerate() {
                if before.is_empty() {
                    steps.push(Step::Dry { server, at: at as u8 });
                }
            }
            // The driver reads what it was asked to read before it sleeps until the next timer.
            if serving.drying.is_empty() && serving.machine.poll_timeout().is_some_and(|at| at < NOW + STALL) {
                steps.push(Step::Look { server });
            }
            if stalls {
                steps.push(Step::Stall { server });
            }
            if !serving.current && !self.procs[number].astray {
                steps.push(Step::NoticeTerm { server });
            }
            if left.expiries > 0 && !stalls && self.oracle.flights.iter().any(|flight| !flight.runs) {
                steps.push(Step::Expire { server });
            }
            if left.resignations > 0 {
                steps.push(Step::Resign { server });
            }
        }
    }

    fn steps_of_directories(&self, steps: &mut Vec<Step>) {
        let left = &self.shared.left;
        for (number, lock) in self.shared.locks.iter().enumerate() {
            match lock {
                Holder::Child => steps.push(Step::ChildEnds { key: number as u8 }),
                Holder::Entry(..) if left.replaced_locks > 0 => steps.push(Step::ReplaceLock { key: number as u8 }),
                _ => {}
            }
        }
        let served = self.shared.term.is_some();
        if left.replaced_terms > 0 && served {
            steps.push(Step::ReplaceTerm);
        }
        if left.replaced_directories > 0 && served {
            steps.push(Step::ReplaceDirectory);
        }
        if left.restored_epochs > 0 && self.shared.epoch > 1 {
            steps.push(Step::RestoreEpoch);
        }
    }

    /// Whether some coordinator looks at key locks, so that a free one may seem busy.
    fn is_looked_at(&self) -> bool {
        self.terms.0.iter().flatten().any(|serving| serving.machine.poll_timeout().is_some_and(|at| at < NOW + STALL))
    }

    pub(crate) fn made(&self, process: Process) -> u8 {
        self.shared.made[usize::from(process)]
    }

    pub(crate) fn conn_of(&self, server: Process, link: Link) -> Option<(Process, usize)> {
        self.procs.iter().enumerate().find_map(|(owner, proc)| {
            let at =
                proc.conns.iter().position(|conn| conn.server == server && conn.link == link && conn.server_end)?;
            Some((owner as Process, at))
        })
    }
}
