//! What one seed is like: how many take part, how fast everything is, and what goes wrong how often.

use crate::random::Random;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// What can go wrong, and how long it takes on average until it does so again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    /// The process that serves.
    CrashCoordinator,
    /// A leader whose child runs on with the lock.
    CrashLeavingChild,
    Freeze,
    FreezeCoordinator,
    Break,
    Leave,
    Close,
    Abort,
    Resign,
    /// Every process dies, and what was not written durably is lost.
    PowerLoss,
    /// Somebody replaces a lock file.
    ReplaceLock,
    /// Somebody replaces the lock file of the term, and removes the socket.
    ReplaceTerm,
    /// The disk is full for a while.
    DiskFull,
}

const FAULTS: [(Fault, u64); 14] = [
    (Fault::Crash, 8 * MILLI),
    (Fault::CrashCoordinator, 3 * MILLI),
    (Fault::CrashLeavingChild, 15 * MILLI),
    (Fault::Freeze, 10 * MILLI),
    (Fault::FreezeCoordinator, 15 * MILLI),
    (Fault::Break, 3 * MILLI),
    (Fault::Leave, 2 * MILLI),
    (Fault::Close, 15 * MILLI),
    (Fault::Abort, 10 * MILLI),
    (Fault::Resign, 4 * MILLI),
    (Fault::PowerLoss, 60 * MILLI),
    (Fault::ReplaceLock, 40 * MILLI),
    (Fault::ReplaceTerm, 40 * MILLI),
    (Fault::DiskFull, 50 * MILLI),
];

#[derive(Clone, Debug)]
pub(crate) struct Mix {
    pub(crate) slots: u64,
    pub(crate) keys: u64,
    /// Bytes that the kernel takes for one direction of a connection.
    pub(crate) capacity: u64,
    /// The longest payload.
    pub(crate) payload: u64,
    /// From the write to the reader, at most.
    pub(crate) latency: u64,
    /// Between two calls of one process, on average.
    pub(crate) gap: u64,
    /// The longest work.
    pub(crate) work: u64,
    /// The longest time for which a process is frozen.
    pub(crate) frozen: u64,
    /// One call in so many has a deadline; one work in so many calls another key; one lease in so many outlives its work; one free lock
    /// in so many seems busy. Zero: none.
    pub(crate) deadlines: u64,
    pub(crate) nested: u64,
    pub(crate) long_leases: u64,
    pub(crate) collisions: u64,
    /// One read in so many takes a few bytes only.
    pub(crate) slow_reads: u64,
    pub(crate) faults: Vec<(Fault, u64)>,
    /// When the faults stop.
    pub(crate) until: u64,
}

impl Mix {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let sometimes = |random: &mut Random, low, high| if random.once_in(2) { random.spread(low, high) } else { 0 };
        let mut faults = Vec::new();
        for (fault, mean) in FAULTS {
            let rare = matches!(
                fault,
                Fault::PowerLoss | Fault::ReplaceLock | Fault::ReplaceTerm | Fault::DiskFull | Fault::CrashLeavingChild
            );
            if random.once_in(if rare { 6 } else { 2 }) {
                faults.push((fault, random.spread(mean / 3, mean * 4)));
            }
        }
        Mix {
            slots: random.between(2, 5),
            keys: random.between(1, 3),
            capacity: random.spread(150, 20_000),
            payload: random.spread(8, 6_000),
            latency: random.spread(2 * MICRO, 400 * MICRO),
            gap: random.spread(100 * MICRO, 6 * MILLI),
            work: random.spread(20 * MICRO, 8 * MILLI),
            frozen: if random.once_in(3) { 400 * MILLI } else { random.spread(MILLI, 20 * MILLI) },
            deadlines: sometimes(random, 2, 20),
            nested: sometimes(random, 2, 10),
            long_leases: sometimes(random, 2, 10),
            collisions: sometimes(random, 2, 50),
            slow_reads: sometimes(random, 2, 20),
            faults,
            until: random.spread(20 * MILLI, 150 * MILLI),
        }
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.iter().any(|(known, _)| *known == fault)
    }
}
