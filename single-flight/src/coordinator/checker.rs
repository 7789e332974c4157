//! What the exhaustive checker needs so that its states are finitely many.

use super::watch::{SOONEST, Watch};
use super::{Coordinator, Time};
use crate::key::Key;

impl Coordinator {
    /// Makes coordinators equal that will decide alike for ever. The library never calls it: it is for checkers, which visit equal
    /// states once.
    ///
    /// It begins three counts anew. None of them has an influence on a decision: the numbers of tickets and deliveries, while none is
    /// outstanding; the turns of a key's callers, while nobody waits and no `ReadDry` is bounded by a turn; and the pace of
    /// the looks at key locks, which says when a look comes and not what follows from it. A checker lets it come at any time.
    #[doc(hidden)]
    pub fn normalise(&mut self, now: Time) {
        if self.tickets.is_empty() && self.deliveries.is_empty() {
            self.next_number = 1;
        }
        for state in self.keys.values_mut() {
            let bounded = state.flight.as_ref().is_some_and(|flight| flight.dry.is_some());
            if state.waiting.is_empty() && !bounded {
                state.next_turn = 0;
            }
        }
        let looks: Vec<Key> = self.looks.iter().map(|(_, key)| key.clone()).collect();
        for key in looks {
            self.schedule(&key, Watch { interval: SOONEST, at: Some(now + SOONEST) });
        }
    }
}
