//! The promises of a single flight, as a witness that sees every call, every work and every verdict of all processes at once.
//!
//! It knows nothing of the protocol. The explorer and the simulation tell it what happens, and it says which promise broke.
//!
//! # The promises
//! 1. Exclusion: of two works of one key, whose lock files were never replaced, only one runs.
//! 2. Order: the works of a key start with strictly growing tokens.
//! 3. Provenance: a joiner gets the outcome of the flight that it was told it joined; a call that began after a leader's call had
//!    returned never gets that flight's value.
//! 4. Nothing acknowledged is lost. (The worlds check it where they see the sockets.)
//! 5. A joiner never runs the work, and hears `interrupted` only when its leader died, closed or lost its lease, or when its
//!    outcome is kept no longer.
//! 6. A caller that left hears nothing, leads nothing and changes nothing for others.
//! 7. Nobody hangs on the dead. (The worlds check it: they know what can still happen.)
//! 8. Lost is told: a lease is lost exactly when the lock is not the leader's own any more, and then its call ends with `LeaseLost`.
//!
//! And each call hears exactly one verdict.

use flight_fencing::{Epoch, FencingToken};
use single_flight::machines::client::{CallId, Verdict};
use single_flight::{Failure, Key, Outcome};
use std::fmt;

/// The number of a process of the world.
pub(crate) type Process = u16;

/// What a call has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Heard {
    Nothing,
    Joined(FencingToken),
    /// Its work was started.
    Leads(FencingToken),
}

/// A call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) process: Process,
    pub(crate) key: Key,
    pub(crate) heard: Heard,
    /// The newest flight of the key whose leader's call had returned when this one began.
    since: Option<FencingToken>,
}

/// A work that was started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) key: Key,
    pub(crate) token: FencingToken,
    pub(crate) process: Process,
    pub(crate) entry: u64,
    /// The work has not ended.
    pub(crate) runs: bool,
    /// A lease of it lives.
    pub(crate) leased: bool,
    /// Nobody replaced the lock file under it.
    pub(crate) sole: bool,
    /// Its lost signal fired.
    pub(crate) lost: bool,
    pub(crate) aborted: bool,
    /// The leader knows that the coordinator of this epoch acknowledged the landing.
    acknowledged: Option<Epoch>,
    /// Its joiners may hear `interrupted`.
    excused: bool,
    /// Its process is dead.
    dead: bool,
    /// The landing is wholly with the coordinator of this epoch, or on its way there.
    pub(crate) landed: Option<Epoch>,
    /// The leader's process closed and told the coordinator of this epoch.
    pub(crate) withdrawn: Option<Epoch>,
    /// Its outcome is not kept any more.
    pub(crate) expired: bool,
}

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Its number. 0: each call hears exactly one verdict. 9: the machines asked for something impossible.
    pub(crate) promise: u8,
    pub(crate) how: String,
}

impl Broken {
    pub(crate) fn new(promise: u8, how: impl Into<String>) -> Self {
        Broken { promise, how: how.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.promise {
            0 => write!(f, "exactly one verdict: {}", self.how),
            9 => write!(f, "a request that no driver can carry out: {}", self.how),
            number => write!(f, "promise {number}: {}", self.how),
        }
    }
}

pub(crate) type Judged = Result<(), Broken>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Oracle {
    pub(crate) calls: Vec<Call>,
    pub(crate) flights: Vec<Flight>,
    /// The newest token of each key that a work was started with.
    started: Vec<(Key, FencingToken)>,
    /// The newest flight of each key whose leader's call has returned.
    returned: Vec<(Key, FencingToken)>,
    /// Somebody restored an old epoch: tokens of different terms cannot be compared any more.
    restored: bool,
}

/// What the flight of a token ends with, unless its work was aborted.
pub(crate) fn value_of(token: FencingToken) -> Outcome {
    Outcome::value(token.as_u64().to_be_bytes().to_vec())
}

impl Oracle {
    pub(crate) fn called(&mut self, process: Process, id: CallId, key: Key) {
        let since = if self.restored { None } else { newest(&self.returned, &key) };
        self.calls.push(Call { id, process, key, heard: Heard::Nothing, since });
    }

    pub(crate) fn left(&mut self, id: CallId) {
        self.calls.retain(|call| call.id != id);
    }

    fn call(&mut self, id: CallId, what: &str) -> Result<&mut Call, Broken> {
        let call = self.calls.iter_mut().find(|call| call.id == id);
        call.ok_or_else(|| Broken::new(0, format!("call {} {what} after it had ended or left", id.0)))
    }

    pub(crate) fn flight(&self, token: FencingToken, key: &Key) -> Option<&Flight> {
        self.flights.iter().rfind(|flight| flight.token == token && flight.key == *key)
    }

    pub(crate) fn flight_of(&mut self, process: Process, entry: u64) -> Option<&mut Flight> {
        self.flights.iter_mut().rfind(|flight| flight.process == process && flight.entry == entry)
    }

    /// Whether the flight's leader had returned before the call began. Flights whose lock file was replaced overlap: their order
    /// tells nothing.
    fn is_past(&self, call: &Call, token: FencingToken) -> bool {
        let sole = self.flight(token, &call.key).is_none_or(|flight| flight.sole);
        sole && !self.restored && call.since.is_some_and(|since| token <= since)
    }

    pub(crate) fn joined(&mut self, id: CallId, token: FencingToken) -> Judged {
        let call = self.call(id, "joined a flight")?.clone();
        if self.is_past(&call, token) {
            return Err(Broken::new(
                3,
                format!("call {} joined {token:?}, whose leader's call had returned before it began", id.0),
            ));
        }
        let call = self.call(id, "joined a flight")?;
        match call.heard {
            Heard::Nothing => call.heard = Heard::Joined(token),
            Heard::Joined(already) if already == token => {}
            heard => return Err(Broken::new(3, format!("call {} joined {token:?}, and had heard {heard:?}", id.0))),
        }
        Ok(())
    }

    /// `sole`: its lock file was not replaced. Otherwise it will learn that it is not alone.
    pub(crate) fn started(
        &mut self,
        process: Process,
        entry: u64,
        id: CallId,
        token: FencingToken,
        sole: bool,
    ) -> Judged {
        let call = self.call(id, "was to lead")?;
        let key = call.key.clone();
        if call.heard != Heard::Nothing {
            return Err(Broken::new(5, format!("call {} runs the work, and had heard {:?}", id.0, call.heard)));
        }
        call.heard = Heard::Leads(token);
        let beside = self.flights.iter().find(|flight| flight.key == key && flight.is_active() && flight.sole);
        if let Some(other) = beside.filter(|_| sole) {
            return Err(Broken::new(1, format!("{token:?} of process {process} runs beside {other:?}")));
        }
        if sole && !self.restored && newest(&self.started, &key).is_some_and(|last| token <= last) {
            return Err(Broken::new(2, format!("{token:?} starts after {:?}", newest(&self.started, &key))));
        }
        if sole {
            raise(&mut self.started, &key, token);
        }
        self.flights.push(Flight {
            key,
            token,
            process,
            entry,
            runs: true,
            leased: true,
            sole,
            lost: false,
            aborted: false,
            acknowledged: None,
            excused: false,
            dead: false,
            landed: None,
            withdrawn: None,
            expired: false,
        });
        Ok(())
    }

    /// The work ended. Returns with what.
    pub(crate) fn ended(&mut self, process: Process, entry: u64, aborted: bool) -> Option<Outcome> {
        let flight = self.flight_of(process, entry)?;
        flight.runs = false;
        flight.aborted = aborted;
        Some(value_of(flight.token))
    }

    pub(crate) fn lease_dropped(&mut self, process: Process, entry: u64) {
        if let Some(flight) = self.flight_of(process, entry) {
            flight.leased = false;
        }
    }

    /// Somebody replaced the lock file that the entry holds.
    pub(crate) fn lock_replaced(&mut self, process: Process, entry: u64) {
        if let Some(flight) = self.flight_of(process, entry) {
            flight.sole = false;
        }
    }

    /// `hopeless`: the process can never reach a coordinator again.
    pub(crate) fn lease_lost(&mut self, process: Process, entry: u64, sole: bool, hopeless: bool) -> Judged {
        let restored = self.restored;
        // Beside somebody whose lock file was replaced, nobody can tell who is right: both may be told.
        let at = self.flights.iter().rposition(|flight| flight.process == process && flight.entry == entry);
        let Some(at) = at else {
            return Err(Broken::new(9, format!("entry {entry} of process {process} has no lease to lose")));
        };
        let contested = self.flights.iter().any(|other| other.key == self.flights[at].key && !other.sole);
        let flight = &mut self.flights[at];
        if sole && !hopeless && !restored && !contested {
            return Err(Broken::new(8, format!("a leader that holds its lock lost its lease: {flight:?}")));
        }
        flight.lost = true;
        flight.excused = true;
        Ok(())
    }

    /// The landing is wholly with the coordinator of this epoch, or in the kernel on its way there: whatever becomes of the
    /// leader, that coordinator will have it.
    pub(crate) fn landed(&mut self, process: Process, entry: u64, with: Epoch) {
        if let Some(flight) = self.flight_of(process, entry).filter(|flight| !flight.runs) {
            flight.landed = Some(with);
        }
    }

    /// The leader heard that its landing is acknowledged.
    pub(crate) fn acknowledged(&mut self, process: Process, entry: u64, by: Epoch) {
        if let Some(flight) = self.flight_of(process, entry).filter(|flight| !flight.runs) {
            flight.acknowledged = Some(by);
        }
    }

    /// The process closes: what it runs is withdrawn. `told`: the coordinator that its words can reach.
    pub(crate) fn closed(&mut self, process: Process, told: Option<Epoch>) {
        for flight in self.flights.iter_mut().filter(|flight| flight.process == process && flight.runs) {
            if !flight.excused {
                flight.withdrawn = told;
            }
            flight.excused = true;
        }
    }

    /// The process is dead. `child`: the key that it had handed to a child, which runs on.
    pub(crate) fn died(&mut self, process: Process, child: Option<&Key>) {
        self.calls.retain(|call| call.process != process);
        for flight in self.flights.iter_mut().filter(|flight| flight.process == process) {
            flight.dead = true;
            if child != Some(&flight.key) {
                flight.runs = false;
                flight.leased = false;
            }
        }
    }

    /// The child that had the key's lock is dead.
    pub(crate) fn child_died(&mut self, key: &Key) {
        for flight in self.flights.iter_mut().filter(|flight| flight.key == *key && flight.dead) {
            flight.runs = false;
            flight.leased = false;
        }
    }

    /// Kept outcomes expired.
    pub(crate) fn expired(&mut self) {
        for flight in self.flights.iter_mut().filter(|flight| !flight.runs) {
            flight.excused = true;
            flight.expired = true;
        }
    }

    /// The epoch's files came back from a backup: whoever has seen no higher epoch begins anew.
    pub(crate) fn epoch_restored(&mut self) {
        self.restored = true;
    }

    /// A call ended. `unheard`: a leader's call that was told because nothing took its landing for a while. `by`: the
    /// epoch of the coordinator that its process listens to.
    pub(crate) fn verdict(&mut self, id: CallId, verdict: &Verdict, unheard: bool, by: Option<Epoch>) -> Judged {
        let call = self.call(id, &format!("hears {verdict:?}"))?.clone();
        self.left(id);
        let mut told = None;
        if let Heard::Joined(token) | Heard::Leads(token) = call.heard {
            told = self.flight(token, &call.key).cloned();
        }
        let wrong = |promise, why: &str| {
            Err(Broken::new(promise, format!("call {} had heard {:?} and hears {verdict:?}: {why}", id.0, call.heard)))
        };
        match (verdict, call.heard) {
            (Verdict::Landed { token, outcome, joined: true }, Heard::Joined(theirs)) => {
                if *token != theirs || *outcome != expected(told.as_ref(), *token) {
                    return wrong(3, "the outcome of another flight");
                }
                if self.is_past(&call, *token) {
                    return wrong(3, "that flight's leader had returned before the call began");
                }
            }
            (Verdict::Landed { token, outcome, joined: false }, Heard::Leads(own)) => {
                if *token != own || *outcome != expected(told.as_ref(), *token) {
                    return wrong(3, "not its own outcome");
                }
                if told.is_some_and(|flight| flight.lost) {
                    return wrong(8, "its lease was lost");
                }
                if !unheard {
                    raise(&mut self.returned, &call.key, own);
                }
            }
            (Verdict::LeaseLost { token }, Heard::Leads(own)) => {
                if *token != own || told.is_none_or(|flight| !flight.lost) {
                    return wrong(8, "its lease was not lost");
                }
            }
            (Verdict::Interrupted { token }, Heard::Joined(theirs)) => {
                if *token != theirs {
                    return wrong(3, "another flight was interrupted");
                }
                let excused = |flight: &Flight| {
                    flight.excused
                        || !flight.sole
                        || (flight.dead && (flight.landed.is_none() || flight.landed != by || self.restored))
                        || flight.acknowledged.is_some_and(|epoch| Some(epoch) != by || self.restored)
                };
                // Whoever leads on a replaced lock file takes the key from those who hold the one at the path.
                let contested = self.flights.iter().any(|flight| flight.key == call.key && !flight.sole);
                // After an old epoch was restored, a token may name several flights.
                let mut named = self.flights.iter().filter(|flight| flight.token == *token && flight.key == call.key);
                if !contested && !named.any(excused) {
                    return wrong(5, "its leader lives, and neither closed nor lost its lease");
                }
            }
            (
                Verdict::Closed | Verdict::TimedOut { .. } | Verdict::Unavailable(_),
                Heard::Nothing | Heard::Joined(_),
            ) => {}
            _ => return wrong(0, "that cannot follow"),
        }
        Ok(())
    }
}

fn expected(flight: Option<&Flight>, token: FencingToken) -> Outcome {
    if flight.is_some_and(|flight| flight.aborted) { aborted() } else { value_of(token) }
}

fn aborted() -> Outcome {
    Outcome::failure(&Failure::new(
        Failure::ABORTED,
        "the work ended without a result: its task was aborted, or its runtime dropped",
    ))
}

impl Flight {
    /// Its work runs on a lock file that somebody replaced, and it was not told.
    pub(crate) fn is_misled(&self) -> bool {
        self.runs && !self.sole && !self.lost && !self.excused && !self.dead
    }

    /// Its work runs, or somebody holds a lease of it.
    pub(crate) fn is_active(&self) -> bool {
        self.runs || self.leased
    }
}

fn newest(list: &[(Key, FencingToken)], key: &Key) -> Option<FencingToken> {
    list.iter().find(|(of, _)| of == key).map(|(_, token)| *token)
}

fn raise(list: &mut Vec<(Key, FencingToken)>, key: &Key, token: FencingToken) {
    match list.iter_mut().find(|(of, _)| of == key) {
        Some((_, newest)) => *newest = token.max(*newest),
        None => {
            list.push((key.clone(), token));
            list.sort();
        }
    }
}
