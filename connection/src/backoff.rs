//! How long to wait before the next attempt.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Waiting times that grow from one attempt to the next and differ from process to process, so that those who failed in the same
/// instant do not all come again in another one.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    limit: Duration,
    ceiling: Duration,
    random: Random,
}

impl Backoff {
    pub(crate) fn new(first: Duration, limit: Duration) -> Backoff {
        Backoff { first, limit, ceiling: first, random: Random::new() }
    }

    /// Between a quarter of the ceiling and all of it; the ceiling grows by half, up to the limit.
    pub(crate) fn draw(&mut self) -> Duration {
        let ceiling = self.ceiling;
        self.ceiling = (ceiling * 3 / 2).min(self.limit);
        ceiling / 4 + (ceiling * 3 / 4).mul_f64(self.random.unit())
    }

    /// As the last [`draw`](Backoff::draw) of a long row.
    pub(crate) fn draw_longest(&mut self) -> Duration {
        self.ceiling = self.limit;
        self.draw()
    }

    pub(crate) fn reset(&mut self) {
        self.ceiling = self.first;
    }
}

/// A small generator (xorshift64). Nothing secret hangs on it: it only has to differ between processes.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new() -> Random {
        // The standard library seeds its hash maps from the operating system.
        Random(RandomState::new().build_hasher().finish() | 1)
    }

    /// Evenly from 0 to 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_limit_and_stay_within_their_bounds() {
        let (first, limit) = (Duration::from_millis(1), Duration::from_millis(50));
        let mut backoff = Backoff::new(first, limit);
        let mut ceiling = first;
        for _ in 0..20 {
            let wait = backoff.draw();
            assert!(ceiling / 4 <= wait && wait <= ceiling, "{wait:?} under a ceiling of {ceiling:?}");
            ceiling = (ceiling * 3 / 2).min(limit);
        }
        assert_eq!(ceiling, limit);
        backoff.reset();
        assert!(backoff.draw() <= first);
        assert!(backoff.draw_longest() >= limit / 4);
    }

    #[test]
    fn two_that_failed_together_do_not_come_back_together() {
        let draw = || Backoff::new(Duration::from_secs(1), Duration::from_secs(1)).draw();
        let waits: Vec<Duration> = (0..20).map(|_| draw()).collect();
        let spread = waits.iter().max().unwrap().saturating_sub(*waits.iter().min().unwrap());
        assert!(spread > Duration::from_millis(100), "{waits:?}");
    }
}
