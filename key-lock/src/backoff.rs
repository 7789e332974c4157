use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The shortest pause: a lock that somebody only looks at is free again sooner.
const SHORTEST: Duration = Duration::from_micros(100);

/// The longest pause: it bounds what a waiter adds to a hand-over.
const LONGEST: Duration = Duration::from_millis(10);

/// The pauses of one who waits for a lock: twice as long each time, and each a little different from everybody else's, so that those
/// who began together do not look together for ever.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff { next: SHORTEST, random: RandomState::new(), drawn: 0 }
    }

    /// A pause between one half and the whole of the present step.
    pub(crate) fn draw(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(LONGEST);
        self.drawn += 1;
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.drawn);
        // 32 bits of a keyed hash: as random as a pause needs to be.
        let share = hasher.finish() & u64::from(u32::MAX);
        let nanos = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX) / 2;
        Duration::from_nanos(nanos + nanos * (share >> 16) / (1 << 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_no_further() {
        let mut backoff = Backoff::new();
        let pauses: Vec<Duration> = (0..20).map(|_| backoff.draw()).collect();
        assert!(pauses[0] <= SHORTEST && pauses[0] >= SHORTEST / 2);
        assert!(pauses[8..].iter().all(|pause| *pause >= LONGEST / 2 && *pause <= LONGEST), "{pauses:?}");
        assert!(pauses[8..].windows(2).any(|pair| pair[0] != pair[1]), "they are not all alike");
    }
}
