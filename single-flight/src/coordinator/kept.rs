//! Rules 7 and 9: outcomes kept for late rejoins, and the newest begun token of each key, for a bounded time and size.

use super::Time;
use crate::key::Key;
use crate::outcome::Outcome;
use flight_fencing::FencingToken;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long an outcome is kept: longer than a failover takes on a loaded machine, by far.
pub(super) const KEEP: Duration = Duration::from_secs(30);

/// The bytes that kept outcomes may take together, the latest one not counted.
const KEEP_BYTES: usize = 64 << 20;

/// How many flights are remembered.
const KEEP_FLIGHTS: usize = 1 << 16;

/// How much longer than due an entry may stay, so that many of them go in one turn.
const SLACK: Duration = Duration::from_secs(1);

/// The memory of flights that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    outcomes: BTreeMap<(Key, FencingToken), Outcome>,
    newest: BTreeMap<Key, FencingToken>,
    /// In the order in which they expire.
    order: VecDeque<(Time, Key, FencingToken)>,
    bytes: usize,
}

impl Kept {
    pub(super) fn outcome(&self, key: &Key, token: FencingToken) -> Option<&Outcome> {
        self.outcomes.get(&(key.clone(), token))
    }

    pub(super) fn newest(&self, key: &Key) -> Option<FencingToken> {
        self.newest.get(key).copied()
    }

    /// Remembers that the flight began and has ended; with its outcome, where somebody may ask for it.
    pub(super) fn keep(&mut self, now: Time, key: &Key, token: FencingToken, outcome: Option<Outcome>) {
        let newest = self.newest.entry(key.clone()).or_insert(token);
        *newest = token.max(*newest);
        if let Some(outcome) = outcome {
            self.bytes += outcome.payload.len();
            if let Some(old) = self.outcomes.insert((key.clone(), token), outcome) {
                self.bytes -= old.payload.len();
            }
        }
        self.order.push_back((now + KEEP, key.clone(), token));
        while self.order.len() > KEEP_FLIGHTS || (self.bytes > KEEP_BYTES && self.order.len() > 1) {
            self.drop_oldest();
        }
    }

    pub(super) fn expire(&mut self, now: Time) {
        while self.order.front().is_some_and(|(at, ..)| *at <= now) {
            self.drop_oldest();
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.order.front().map(|(at, ..)| *at + SLACK)
    }

    fn drop_oldest(&mut self) {
        let Some((_, key, token)) = self.order.pop_front() else {
            return;
        };
        if self.newest.get(&key) == Some(&token) {
            self.newest.remove(&key);
        }
        if let Some(outcome) = self.outcomes.remove(&(key, token)) {
            self.bytes -= outcome.payload.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight_fencing::Epoch;

    fn token(counter: u32) -> FencingToken {
        FencingToken::new(Epoch::new(1), counter)
    }

    #[test]
    fn the_newest_token_outlives_older_entries_and_goes_with_its_own() {
        let (mut kept, key) = (Kept::default(), Key::from("k"));
        kept.keep(Duration::ZERO, &key, token(1), None);
        kept.keep(Duration::from_secs(20), &key, token(2), None);
        kept.expire(Duration::from_secs(31));
        assert_eq!(kept.newest(&key), Some(token(2)));
        kept.expire(Duration::from_secs(50));
        assert_eq!(kept.newest(&key), None);
    }

    #[test]
    fn the_bytes_stay_bounded_and_the_latest_outcome_stays() {
        let (mut kept, key) = (Kept::default(), Key::from("k"));
        for counter in 0..5 {
            kept.keep(Duration::ZERO, &key, token(counter), Some(Outcome::value(vec![0; 30 << 20])));
        }
        assert!(kept.bytes <= KEEP_BYTES, "{} bytes", kept.bytes);
        assert!(kept.outcome(&key, token(4)).is_some() && kept.outcome(&key, token(0)).is_none());
    }
}
