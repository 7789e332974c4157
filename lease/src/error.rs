//! What the holder of a lost lease gets.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use flight_fencing::FencingToken;

use crate::lease::Terms;

/// As much of a subject as a message shows, in characters. Subjects may be of any length.
const SHOWN: usize = 80;

/// The lease was lost: its holder may no longer be alone.
///
/// It does not say that the work was undone or that it failed. Its source is the work's own error, when the work ended with one:
///
/// ```
/// use flight_fencing::FencingToken;
/// use flight_lease::LeaseLost;
/// use std::error::Error;
///
/// let lost = LeaseLost::new("report", FencingToken::from_u64(12)).with_source("disk full");
/// assert!(lost.to_string().contains(r#"the lease of "report""#));
/// assert_eq!(lost.source().expect("it has one").to_string(), "disk full");
/// assert_eq!(lost.into_source().expect("it has one").to_string(), "disk full");
/// ```
#[derive(Debug)]
pub struct LeaseLost {
    subject: Arc<str>,
    token: FencingToken,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl LeaseLost {
    /// The lease of `subject` with `token` was lost. [`Lease::check`](crate::Lease::check) makes it for you.
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>, token: FencingToken) -> LeaseLost {
        LeaseLost { subject: subject.into(), token, source: None }
    }

    pub(crate) fn of(terms: &Terms) -> LeaseLost {
        LeaseLost::new(Arc::clone(&terms.subject), terms.token)
    }

    /// The same, with the error that the work itself ended with.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> LeaseLost {
        self.source = Some(source.into());
        self
    }

    /// What the lease was about, whole. (The message shortens and escapes it.)
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The token of the lost lease. Whoever holds the subject now has a greater one.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The work's own error, by value, so that it can be downcast and handed on.
    #[must_use]
    pub fn into_source(self) -> Option<Box<dyn Error + Send + Sync>> {
        self.source
    }
}

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown_end = self.subject.char_indices().nth(SHOWN).map(|(at, _)| at);
        match shown_end {
            None => write!(f, "the lease of {:?}", self.subject)?,
            Some(end) => {
                let rest = self.subject.len() - end;
                write!(f, "the lease of {:?} (and {rest} bytes more)", &self.subject[..end])?;
            }
        }
        write!(
            f,
            " with fencing token {} was lost: another may work on it now; stop, and write nothing more with this token",
            self.token
        )
    }
}

impl Error for LeaseLost {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
