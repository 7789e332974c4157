//! The world around the machines, as the explorer keeps it: processes, connections, locks, the epoch.
//!
//! A [`World`] is taken apart into kept parts, whose numbers are the state. Time stands still at [`NOW`] for all that happens by
//! itself. A timer fires at its own time, and then it is [`NOW`] again: what a machine decides depends on spans alone.

use crate::intern::{Kept, Once, keep_once};
use crate::oracle::{Broken, Oracle, Process};
use flight_fencing::{Epoch, FencingToken};
use single_flight::Key;
use single_flight::machines::client::Client;
use single_flight::machines::coordinator::{Coordinator, Link};
use single_flight::machines::protocol::{Request, RequestId, Response};
use std::rc::Rc;
use std::time::Duration;

pub(crate) const NOW: Duration = Duration::from_secs(1000);

/// What a run may contain. Everything that is not limited here may happen at any time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Limits {
    /// How many calls each process makes, at most. As many processes as there are numbers.
    pub(crate) calls: Vec<u8>,
    /// How many calls of one process wait at a time.
    pub(crate) together: u8,
    pub(crate) keys: u8,
    pub(crate) crashes: u8,
    /// Crashes of a leader whose child runs on with the lock.
    pub(crate) orphaned_children: u8,
    pub(crate) breaks: u8,
    pub(crate) leaves: u8,
    pub(crate) closes: u8,
    pub(crate) aborts: u8,
    pub(crate) resignations: u8,
    /// Times that kept outcomes expire.
    pub(crate) expiries: u8,
    /// Processes whose socket is full for a while.
    pub(crate) clogs: u8,
    /// Lock files of keys that somebody replaces.
    pub(crate) replaced_locks: u8,
    /// Times that somebody replaces `flight.lock` and removes the socket.
    pub(crate) replaced_terms: u8,
    /// Times that somebody replaces the whole directory.
    pub(crate) replaced_directories: u8,
    /// Times that the epoch's files come back from a backup.
    pub(crate) restored_epochs: u8,
    /// Callers that find a lock busy because a coordinator looks at it.
    pub(crate) collisions: u8,
    /// Landings that are told to the leader although the kernel did not take them.
    pub(crate) untaken: u8,
    /// A lease may outlive its work.
    pub(crate) long_leases: bool,
}

/// What is left of the limits, and what belongs to no process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shared {
    pub(crate) left: Limits,
    /// How many calls each process has made.
    pub(crate) made: Vec<u8>,
    pub(crate) epoch: u32,
    /// Who holds the lock file at the path of the term.
    pub(crate) term: Option<Process>,
    /// Whose socket is at its path.
    pub(crate) published: Option<Process>,
    /// Who holds the lock file at the path of each key.
    pub(crate) locks: Vec<Holder>,
    /// Entries that hold a lock file which is not at its path any more.
    pub(crate) outdated: Vec<(Process, RequestId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Nobody,
    Entry(Process, RequestId),
    /// The child of a dead leader.
    Child,
}

/// How a client reaches a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reach {
    None,
    /// Its own process serves.
    Local,
    /// The last of its connections.
    Remote,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proc {
    pub(crate) alive: bool,
    pub(crate) open: bool,
    /// Somebody replaced the directory, and the process does not know yet.
    pub(crate) astray: bool,
    pub(crate) wants: bool,
    pub(crate) client: Once<Client>,
    pub(crate) reach: Reach,
    /// The epoch of the term that it is linked to.
    pub(crate) linked: Option<Epoch>,
    pub(crate) conns: Vec<Conn>,
    /// Entries whose leader waits for the kernel to take the landing.
    pub(crate) untold: Vec<RequestId>,
}

/// A connection, with what is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conn {
    pub(crate) server: Process,
    pub(crate) link: Link,
    pub(crate) up: Vec<Once<Request>>,
    pub(crate) down: Vec<Once<Response>>,
    /// The client reads and writes.
    pub(crate) client_end: bool,
    /// The coordinator reads and writes.
    pub(crate) server_end: bool,
    /// Nothing more gets through. What is on its way arrives.
    pub(crate) cut: bool,
    /// The socket towards the client is full.
    pub(crate) full: bool,
    /// What the full socket has no place for.
    pub(crate) backlog: Vec<(Once<Response>, Option<u64>)>,
    /// The ids that the coordinator knows to be joined to a flight, and has not answered.
    pub(crate) told: Vec<(RequestId, FencingToken)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Serving {
    pub(crate) machine: Once<Coordinator>,
    /// Its lock file is the one at the path.
    pub(crate) current: bool,
    pub(crate) epoch: Epoch,
    /// What has to be read before each `Dry`: of which link, how many requests.
    pub(crate) drying: Vec<(u64, Vec<(Link, u8)>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms(pub(crate) Vec<Option<Serving>>);

keep_once!(Client, Coordinator, Request, Response, Proc, Terms, Shared, Oracle);

/// The numbers of the parts of a world: four processes, the terms, what is shared, the oracle.
pub(crate) type Packed = [u32; 7];

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) procs: Vec<Rc<Proc>>,
    pub(crate) terms: Rc<Terms>,
    pub(crate) shared: Rc<Shared>,
    pub(crate) oracle: Rc<Oracle>,
    pub(crate) bad: Option<Broken>,
    /// What the last step showed, of what a run should show sometimes.
    pub(crate) noticed: u32,
    /// What the last step did, for a reader.
    pub(crate) log: Option<Vec<String>>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

pub(crate) fn key(number: u8) -> Key {
    Key::from(NAMES[usize::from(number)])
}

pub(crate) fn key_number(key: &Key) -> usize {
    NAMES.iter().position(|name| *name == key.as_str()).expect("the keys of the worlds are in the list")
}

impl World {
    pub(crate) fn new(limits: &Limits) -> Self {
        assert!(limits.calls.len() <= 4, "a packed world has a place for four processes");
        let proc = |number: usize| Proc {
            alive: true,
            open: true,
            astray: false,
            wants: false,
            client: Once::new(Client::new(pid(number))),
            reach: Reach::None,
            linked: None,
            conns: Vec::new(),
            untold: Vec::new(),
        };
        let shared = Shared {
            left: limits.clone(),
            made: vec![0; limits.calls.len()],
            epoch: 0,
            term: None,
            published: None,
            locks: vec![Holder::Nobody; usize::from(limits.keys)],
            outdated: Vec::new(),
        };
        World {
            procs: (0..limits.calls.len()).map(|number| Rc::new(proc(number))).collect(),
            terms: Rc::new(Terms(vec![None; limits.calls.len()])),
            shared: Rc::new(shared),
            oracle: Rc::new(Oracle::default()),
            bad: None,
            noticed: 0,
            log: None,
        }
    }

    /// The numbers of the parts. What the step from `before` left alone keeps its number.
    pub(crate) fn pack(&self, before: Option<(&World, &Packed)>) -> Packed {
        let mut packed = before.map(|(_, packed)| *packed).unwrap_or_default();
        let before = before.map(|(world, _)| world);
        for (at, proc) in self.procs.iter().enumerate() {
            renumber(&mut packed[at], proc, before.map(|world| &world.procs[at]));
        }
        renumber(&mut packed[4], &self.terms, before.map(|world| &world.terms));
        renumber(&mut packed[5], &self.shared, before.map(|world| &world.shared));
        renumber(&mut packed[6], &self.oracle, before.map(|world| &world.oracle));
        packed
    }

    pub(crate) fn unpack(packed: &Packed, processes: usize) -> Self {
        World {
            procs: packed.iter().take(processes).map(|number| kept(*number)).collect(),
            terms: kept(packed[4]),
            shared: kept(packed[5]),
            oracle: kept(packed[6]),
            bad: None,
            noticed: 0,
            log: None,
        }
    }

    pub(crate) fn proc(&mut self, process: Process) -> &mut Proc {
        Rc::make_mut(&mut self.procs[usize::from(process)])
    }

    pub(crate) fn shared(&mut self) -> &mut Shared {
        Rc::make_mut(&mut self.shared)
    }

    pub(crate) fn oracle(&mut self) -> &mut Oracle {
        Rc::make_mut(&mut self.oracle)
    }

    pub(crate) fn serving(&mut self, process: Process) -> Option<&mut Serving> {
        Rc::make_mut(&mut self.terms).0[usize::from(process)].as_mut()
    }

    pub(crate) fn serves(&self, process: Process) -> Option<&Serving> {
        self.terms.0[usize::from(process)].as_ref()
    }

    pub(crate) fn judge(&mut self, judged: Result<(), Broken>) {
        if let Err(broken) = judged {
            self.bad.get_or_insert(broken);
        }
    }

    pub(crate) fn tell(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(text());
        }
    }
}

fn renumber<T: Kept>(number: &mut u32, part: &Rc<T>, before: Option<&Rc<T>>) {
    if before.is_none_or(|before| !Rc::ptr_eq(part, before)) {
        *number = Once::from_rc(part.clone()).number();
    }
}

fn kept<T: Kept>(number: u32) -> Rc<T> {
    Once::<T>::numbered(number).into_rc()
}

/// The number that people know the process by.
pub(crate) fn pid(process: usize) -> u32 {
    u32::try_from(process).unwrap_or_default()
}

impl Conn {
    /// Whether what the client writes can arrive.
    pub(crate) fn takes_requests(&self) -> bool {
        self.client_end && self.server_end && !self.cut
    }

    /// Whether what the coordinator writes can arrive.
    pub(crate) fn takes_responses(&self) -> bool {
        self.client_end && self.server_end && !self.cut
    }
}
