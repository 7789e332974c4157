//! Visits every state that a world can reach, the nearest first.

use crate::intern::Fold;
use crate::oracle::{Broken, Call, Flight, Heard, Process};
use crate::steps::Step;
use crate::world::{Holder, Limits, Packed, World};
use std::hash::Hasher;
use std::time::{Duration, Instant};

/// What came of an exploration.
pub(crate) struct Report {
    pub(crate) name: &'static str,
    pub(crate) states: usize,
    pub(crate) transitions: u64,
    pub(crate) depth: u32,
    pub(crate) took: Duration,
    /// All states were visited.
    pub(crate) complete: bool,
    pub(crate) noticed: u32,
    pub(crate) failure: Option<Failure>,
}

/// A promise that broke, and the shortest way there.
pub(crate) struct Failure {
    pub(crate) broken: Broken,
    pub(crate) steps: usize,
    pub(crate) transcript: Vec<String>,
}

/// The states that were visited, in the order in which they were found. They are stored exactly.
#[derive(Default)]
struct Visited {
    states: Vec<Packed>,
    /// From which state each was found, and by which of its steps.
    origins: Vec<(u32, u16)>,
    /// Open addressing: the number of a state plus one, and bits of its hash.
    slots: Vec<(u32, u32)>,
}

impl Visited {
    /// Whether the state is new.
    fn insert(&mut self, state: Packed, origin: (u32, u16)) -> bool {
        if self.states.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = hash(&state);
        let mask = self.slots.len() - 1;
        let tag = (hash >> 32) as u32;
        let mut at = hash as usize & mask;
        loop {
            let (number, theirs) = self.slots[at];
            if number == 0 {
                break;
            }
            if theirs == tag && self.states[number as usize - 1] == state {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.states.push(state);
        self.origins.push(origin);
        self.slots[at] = (u32::try_from(self.states.len()).expect("fewer than 2^32 states"), tag);
        true
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1 << 12);
        self.slots = vec![(0, 0); size];
        for (number, state) in self.states.iter().enumerate() {
            let hash = hash(state);
            let mut at = hash as usize & (size - 1);
            while self.slots[at].0 != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = (number as u32 + 1, (hash >> 32) as u32);
        }
    }
}

fn hash(state: &Packed) -> u64 {
    let mut fold = Fold::default();
    for pair in state.chunks(2) {
        fold.write_u64(u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(0)) << 32);
    }
    fold.finish()
}

pub(crate) fn explore(name: &'static str, limits: &Limits, most: usize, until: Instant) -> Report {
    let began = Instant::now();
    let processes = limits.calls.len();
    let mut visited = Visited::default();
    visited.insert(World::new(limits).pack(None), (0, 0));
    let mut report = Report {
        name,
        states: 0,
        transitions: 0,
        depth: 0,
        took: Duration::ZERO,
        complete: true,
        noticed: 0,
        failure: None,
    };
    let (mut at, mut level_ends) = (0, 1);
    let mut steps = Vec::new();
    let mut moves = Vec::new();
    while at < visited.states.len() {
        if at == level_ends {
            report.depth += 1;
            level_ends = visited.states.len();
        }
        if visited.states.len() > most || (at % 4096 == 0 && Instant::now() > until) {
            report.complete = false;
            break;
        }
        let packed = visited.states[at];
        let world = World::unpack(&packed, processes);
        steps.clear();
        moves.clear();
        world.steps(&mut steps);
        let mut failure = None;
        for (number, step) in steps.iter().enumerate() {
            let mut next = world.clone();
            next.apply(*step);
            report.transitions += 1;
            report.noticed |= next.noticed;
            if let Some(broken) = next.bad {
                failure = Some((broken, Some(number)));
                break;
            }
            let state = next.pack(Some((&world, &packed)));
            if state != packed {
                moves.push(*step);
                visited.insert(state, (at as u32, number as u16));
            }
        }
        let failure = failure.or_else(|| world.stuck(&moves).map(|broken| (broken, None)));
        if let Some((broken, last)) = failure {
            let (steps, transcript) = replay(&visited, limits, at as u32, last);
            report.failure = Some(Failure { broken, steps, transcript });
            break;
        }
        at += 1;
    }
    report.states = visited.states.len();
    report.took = began.elapsed();
    report
}

/// Walks the way to a state again, and writes down what happens.
fn replay(visited: &Visited, limits: &Limits, state: u32, last: Option<usize>) -> (usize, Vec<String>) {
    let mut numbers: Vec<usize> = last.into_iter().collect();
    let mut at = state;
    while at != 0 {
        let (from, number) = visited.origins[at as usize];
        numbers.push(usize::from(number));
        at = from;
    }
    numbers.reverse();
    let mut world = World::new(limits);
    world.log = Some(Vec::new());
    let mut steps = Vec::new();
    for number in &numbers {
        steps.clear();
        world.steps(&mut steps);
        world.apply(steps[*number]);
    }
    (numbers.len(), world.log.unwrap_or_default())
}

impl World {
    /// Promise 7, and that nothing is left over. `moves`: the steps that lead somewhere.
    fn stuck(&self, moves: &[Step]) -> Option<Broken> {
        let goes_on = |step: &&Step| !step.is_fault() && !step.is_end();
        let mut others = moves.iter().filter(goes_on).map(|step| step.of());
        let Some(first) = others.next() else {
            return self.stands();
        };
        let frozen = first?;
        if !others.all(|of| of == Some(frozen)) {
            return None;
        }
        self.stands_beside(frozen)
    }

    /// Nothing more happens, except that works end: whoever waits must wait for one of them.
    fn stands(&self) -> Option<Broken> {
        for call in &self.oracle.calls {
            if let Some(flight) = self.withdrawn(call) {
                return Some(Broken::new(
                    5,
                    format!("{call:?} waits for a flight that its leader withdrew: {flight:?}"),
                ));
            }
            let works = |flight: &Flight| flight.key == call.key && flight.is_active();
            if !self.oracle.flights.iter().any(works) {
                return Some(Broken::new(7, format!("{call:?} waits for nothing that can happen")));
            }
        }
        if let Some(flight) = self.oracle.flights.iter().find(|flight| flight.is_misled()) {
            return Some(Broken::new(
                8,
                format!("the leader's lock file was replaced, and nobody tells it: {flight:?}"),
            ));
        }
        if self.oracle.flights.iter().any(Flight::is_active) {
            return None;
        }
        if let Some(lock) = self.shared.locks.iter().find(|lock| **lock != Holder::Nobody) {
            return Some(Broken::new(7, format!("nothing runs, and a lock is held: {lock:?}")));
        }
        for (number, proc) in self.procs.iter().enumerate() {
            if proc.alive && proc.client.entries() > 0 {
                return Some(Broken::new(
                    7,
                    format!("nothing runs, and client {number} keeps an entry: {:?}", proc.client),
                ));
            }
        }
        for serving in self.terms.0.iter().flatten() {
            let report = serving.machine.report(crate::world::NOW);
            if !report.flights.is_empty() || !report.waiting.is_empty() {
                return Some(Broken::new(7, format!("nothing runs, and the coordinator knows {report:?}")));
            }
        }
        None
    }

    /// The flight that the call has joined, when its leader closed and the call's coordinator was told.
    fn withdrawn(&self, call: &Call) -> Option<&Flight> {
        let Heard::Joined(token) = call.heard else { return None };
        let linked = self.procs[usize::from(call.process)].linked;
        let flight = self.oracle.flight(token, &call.key)?;
        (flight.withdrawn.is_some() && flight.withdrawn == linked).then_some(flight)
    }

    /// Nothing more happens while this process is frozen, except that works end. If it holds nothing, nobody may wait for it.
    fn stands_beside(&self, frozen: Process) -> Option<Broken> {
        if self.serves(frozen).is_some() || !self.procs[usize::from(frozen)].alive {
            return None;
        }
        // What it held is not the key's lock file any more, and it does not know.
        if self.shared.outdated.iter().any(|(process, _)| *process == frozen) {
            return None;
        }
        for call in self.oracle.calls.iter().filter(|call| call.process != frozen) {
            let works = |flight: &Flight| flight.key == call.key && flight.is_active();
            let held = matches!(self.holder(&call.key), Holder::Entry(process, _) if process == frozen);
            if !held && !self.oracle.flights.iter().any(works) {
                return Some(Broken::new(
                    7,
                    format!("{call:?} waits for process {frozen}, which is frozen and holds nothing of it"),
                ));
            }
        }
        None
    }
}
