//! How those who wait for a lock space their looks.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The shortest pause: who only looks at a lock has let go of it sooner.
const SHORTEST: Duration = Duration::from_micros(100);

/// The longest pause: it bounds what waiting by looking adds to a hand-over.
const LONGEST: Duration = Duration::from_millis(10);

/// The pauses of one who waits: twice as long each time, and each a little different from everybody else's, so that those who began
/// together do not go on looking together.
#[derive(Debug)]
pub(crate) struct Backoff {
    step: Duration,
    /// Its keys differ for each value, which is all that is needed of it.
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { step: SHORTEST, random: RandomState::new(), drawn: 0 }
    }

    /// A pause between one half and the whole of the present step.
    pub(crate) fn draw(&mut self) -> Duration {
        let half = self.step / 2;
        self.step = (self.step * 2).min(LONGEST);
        self.drawn += 1;
        // 16 bits of a keyed hash, as a share of the other half.
        let share = self.random.hash_one(self.drawn) as u16;
        half + half * u32::from(share) / u32::from(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_no_further() {
        let mut backoff = Backoff::new();
        let pauses: Vec<Duration> = (0..40).map(|_| backoff.draw()).collect();
        assert!(pauses[0] >= SHORTEST / 2 && pauses[0] <= SHORTEST, "{pauses:?}");
        assert!(pauses[8..].iter().all(|pause| *pause >= LONGEST / 2 && *pause <= LONGEST), "{pauses:?}");
    }

    #[test]
    fn two_who_begin_together_part() {
        let (mut one, mut other) = (Backoff::new(), Backoff::new());
        let parted = (0..40).filter(|_| one.draw() != other.draw()).count();
        assert!(parted > 30, "{parted} of 40 pauses differ");
    }
}
