//! What `status` answers.

use super::{Coordinator, Link, Party, Time};
use crate::status::{FlightPhase, FlightStatus, StatusReport, WaitingStatus};
use std::collections::BTreeSet;

impl Coordinator {
    /// What is in flight now, and who waits for what.
    pub fn report(&self, now: Time) -> StatusReport {
        let age = |since: Time| u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX);
        let mut flights = Vec::new();
        let mut waiting = Vec::new();
        for (key, state) in &self.keys {
            let waiters = state.waiting.iter().map(|waiter| &waiter.party).chain(state.rejoining.keys());
            if let Some(flight) = &state.flight {
                flights.push(FlightStatus {
                    key: key.as_str().to_owned(),
                    token: flight.token,
                    phase: match flight.leader {
                        None => FlightPhase::Orphaned,
                        Some(_) if flight.begun => FlightPhase::Running,
                        Some(_) => FlightPhase::Granted,
                    },
                    pid: flight.claimant.pid,
                    label: flight.claimant.label.clone(),
                    age_ms: age(flight.since),
                    joiners: flight.joiners.len(),
                    joiner_pids: self.pids(flight.joiners.iter()),
                });
            }
            let callers = state.waiting.len() + state.rejoining.len();
            if callers > 0 {
                waiting.push(WaitingStatus { key: key.as_str().to_owned(), callers, pids: self.pids(waiters) });
            }
        }
        StatusReport {
            pid: self.pid,
            epoch: self.epoch(),
            age_ms: age(self.started),
            connections: self.links.keys().filter(|link| **link != Link::LOCAL).count(),
            flights,
            waiting,
        }
    }

    fn pids<'a>(&self, parties: impl Iterator<Item = &'a Party>) -> Vec<u32> {
        let pids: BTreeSet<u32> =
            parties.filter_map(|party| self.links.get(&party.link)).map(|connected| connected.pid).collect();
        pids.into_iter().collect()
    }
}
