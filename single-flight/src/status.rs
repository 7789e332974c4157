use flight_fencing::{Epoch, FencingToken};
use serde::{Deserialize, Serialize};

/// What the coordinator of a directory knows: what is in flight, and who waits for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatusReport {
    /// The coordinator's process id, in its own namespace.
    pub pid: u32,
    /// The epoch of the coordinator's term.
    pub epoch: Epoch,
    /// How long the term has lasted, in milliseconds.
    pub age_ms: u64,
    /// How many processes are connected to it, its own not counted.
    pub connections: usize,
    /// The flights, ordered by key.
    pub flights: Vec<FlightStatus>,
    /// The keys that somebody waits for without a flight to join: the key lock is held by a holder that has not said what it runs.
    pub waiting: Vec<WaitingStatus>,
}

/// One flight in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlightStatus {
    /// The key.
    pub key: String,
    /// The flight's fencing token.
    pub token: FencingToken,
    /// How far the flight is.
    pub phase: FlightPhase,
    /// The leader's process id, in its own namespace.
    pub pid: u32,
    /// What the leader calls itself.
    pub label: String,
    /// How long the flight has lasted, in milliseconds.
    pub age_ms: u64,
    /// How many calls have joined it. Calls of one process may count as one.
    pub joiners: usize,
    /// The process ids of those who joined, each once, in their own namespaces.
    pub joiner_pids: Vec<u32>,
}

/// How far a flight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlightPhase {
    /// The token is granted; the leader has not yet said that its work runs.
    Granted,
    /// The work runs.
    Running,
    /// The leader's connection ended. Its key lock tells whether it lives.
    Orphaned,
}

/// A key that somebody waits for without a flight to join.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WaitingStatus {
    /// The key.
    pub key: String,
    /// How many calls wait. Calls of one process may count as one.
    pub callers: usize,
    /// The process ids of those who wait, each once, in their own namespaces.
    pub pids: Vec<u32>,
}

/// What a handle knows: its own view of the coordinator, the coordinator's view of the flights, and what this process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The coordinator's process id, where it can be known.
    pub pid: Option<u32>,
    /// What is known of the coordinator, in words: "the coordinator …".
    pub state: String,
    /// What the coordinator says. `None`: there is none, or it does not answer.
    pub report: Option<StatusReport>,
    /// The keys that this process holds, ordered.
    pub held: Vec<HeldStatus>,
}

/// A key that this process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldStatus {
    /// The key.
    pub key: String,
    /// The flight's token, once it is granted.
    pub token: Option<FencingToken>,
    /// Why it is held.
    pub why: HeldWhy,
}

/// Why a process holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeldWhy {
    /// It waits for the coordinator's grant.
    Claiming,
    /// The work runs.
    Running,
    /// The work ended, and the outcome is being delivered.
    Landing,
    /// The work runs, and its lease was lost.
    Lost,
    /// The work runs, and its handle was closed.
    Detached,
    /// The work ended, and a clone of its lease is alive somewhere. The key is free when that is dropped.
    Leased,
}
