//! How long a campaigner waits before it looks at the lock again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first wait is at most this: a term that ends as soon as it was won (a failed campaign, a short job) is over by then.
const SHORTEST: Duration = Duration::from_millis(1);

/// No wait is longer than this. It bounds how long a lock lies free after its holder died, and costs each campaigner
/// about thirty looks a second, each of a few microseconds.
const LONGEST: Duration = Duration::from_millis(50);

/// The waits of one campaign: they double from [`SHORTEST`] to [`LONGEST`], each drawn between its half and its whole.
///
/// Drawn, since campaigners that were started by one event would otherwise all look in the same moment, and of those that
/// look together all but one have looked for nothing.
#[derive(Debug)]
pub(crate) struct Backoff {
    ceiling: Duration,
    /// Its keys differ for each campaign in each process: enough to spread them, and no crate is needed for it.
    random: RandomState,
    drawn: u32,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { ceiling: SHORTEST, random: RandomState::new(), drawn: 0 }
    }

    /// The next wait.
    pub(crate) fn draw(&mut self) -> Duration {
        let half = self.ceiling / 2;
        self.ceiling = (self.ceiling * 2).min(LONGEST);
        self.drawn = self.drawn.wrapping_add(1);
        // The lowest 16 bits as a fraction of the half: finer than any timer.
        let fraction = (self.random.hash_one(self.drawn) & 0xffff) as u32;
        half + half * fraction / 0x1_0000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_are_never_nothing() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..50).map(|_| backoff.draw()).collect();
        assert!(waits[0] <= SHORTEST);
        assert!(waits.iter().all(|wait| *wait >= SHORTEST / 2));
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits[20..].iter().all(|wait| *wait >= LONGEST / 2));
    }

    #[test]
    fn two_campaigns_do_not_keep_step() {
        let (mut one, mut other) = (Backoff::new(), Backoff::new());
        let waits = |backoff: &mut Backoff| (0..20).map(|_| backoff.draw()).collect::<Vec<_>>();
        assert_ne!(waits(&mut one), waits(&mut other));
    }
}
