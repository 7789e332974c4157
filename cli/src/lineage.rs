//! A call inside the run of its own key would wait for itself: it is refused.
//!
//! A command inherits `FLIGHT_LINEAGE`: the runs inside which it was started, by the names of their spools, with colons between them. Such
//! a mark outlives its run in whatever the command left behind, so that it counts only while the run goes on: while its spool, in
//! the directory of the call, is locked by its writer.

use std::ffi::OsString;

use flight_key_lock::KeyLocks;

use crate::command::quoted;
use crate::exit::{self, Failed};
use crate::spool::{Spool, Spools};

/// The variable.
pub(crate) const VARIABLE: &str = "FLIGHT_LINEAGE";

/// The lineage of what is started in this run.
pub(crate) fn extended(name: &str) -> String {
    match std::env::var(VARIABLE) {
        Ok(outer) if !outer.is_empty() => format!("{outer}:{name}"),
        _ => name.to_owned(),
    }
}

/// Refuses a call inside the run of its own key.
pub(crate) fn check(spools: &Spools, key: &str) -> Result<(), Failed> {
    let Ok(lineage) = std::env::var(VARIABLE) else { return Ok(()) };
    let hash = KeyLocks::file_name(key.as_bytes());
    let is_own = |name: &&str| name.strip_prefix(&*hash).is_some_and(|rest| rest.starts_with('-'));
    if !lineage.split(':').filter(is_own).any(|name| spools.is_live(name)) {
        return Ok(());
    }
    let key = quoted(key);
    Err(Failed::new(
        exit::REENTRANT,
        format_args!(
            "called for {key} inside the run of {key}, it would wait for itself: use another key, or call afterwards"
        ),
    ))
}

/// The mark of a run that keeps no output: a spool that stays empty.
#[derive(Debug)]
pub(crate) struct Mark<'a> {
    spools: &'a Spools,
    made: Option<(String, Spool)>,
}

impl<'a> Mark<'a> {
    /// Without one, if it cannot be made: then a call inside waits.
    pub(crate) fn new(spools: &'a Spools, key: &str) -> Mark<'a> {
        let entry = spools.enter(key);
        let name = Spools::name_of_lock(key);
        let made = spools.create(&name, &entry).ok().map(|(spool, _reader)| (name, spool));
        Mark { spools, made }
    }

    /// What the command gets.
    pub(crate) fn variable(&self) -> Option<(&'static str, OsString)> {
        self.made.as_ref().map(|(name, _)| (VARIABLE, extended(name).into()))
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if let Some((name, spool)) = self.made.take() {
            drop(spool);
            self.spools.remove(&name);
        }
    }
}
