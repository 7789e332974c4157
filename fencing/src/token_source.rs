//! Hands out the tokens of one term.

use crate::epoch::Epoch;
use crate::token::FencingToken;

/// Hands out the tokens of one term, each greater than the one before.
///
/// It belongs to the process that leads the term, and to that one alone: two sources of one epoch hand out the same tokens. It is
/// plain data (a clone goes on counting on its own) and keeps nothing on disk. What makes its tokens grow over a crash is
/// that the next term has a greater [`Epoch`].
///
/// ```
/// use flight_fencing::{Epoch, TokenSource};
///
/// let mut tokens = TokenSource::new(Epoch::new(7));
/// let first = tokens.mint()?;
/// let second = tokens.mint()?;
/// assert_eq!((first.epoch(), first.counter()), (Epoch::new(7), 1));
/// assert!(first < second);
/// # Ok::<(), flight_fencing::CounterSpent>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenSource {
    /// The last token that was handed out. Its counter is 0 before the first.
    last: FencingToken,
}

impl TokenSource {
    /// The source of a new term. Its first token has the counter 1.
    #[must_use]
    pub const fn new(epoch: Epoch) -> TokenSource {
        TokenSource { last: FencingToken::new(epoch, 0) }
    }

    /// A source that goes on in the term of `token`, with the counter after it.
    ///
    /// For whoever kept the last token of a term that still goes on, and for tests that want to see a spent counter.
    #[must_use]
    pub const fn starting_after(token: FencingToken) -> TokenSource {
        TokenSource { last: token }
    }

    /// The term of the tokens.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.last.epoch()
    }

    /// The next token.
    ///
    /// # Errors
    ///
    /// [`CounterSpent`] when the term has handed out its 4 294 967 295 tokens, now and at each later call. The one that leads
    /// resigns then, and the next term goes on with a greater epoch.
    pub const fn mint(&mut self) -> Result<FencingToken, CounterSpent> {
        let epoch = self.last.epoch();
        match self.last.counter().checked_add(1) {
            Some(counter) => {
                self.last = FencingToken::new(epoch, counter);
                Ok(self.last)
            }
            None => Err(CounterSpent { epoch }),
        }
    }
}

/// A term has handed out the last token that its counter has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the term with epoch {epoch} has given out all of its fencing tokens: begin a new term with a greater epoch")]
#[non_exhaustive]
pub struct CounterSpent {
    /// The term whose counter is spent.
    pub epoch: Epoch,
}
