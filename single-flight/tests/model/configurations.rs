//! The sets of runs.

use crate::arguments::Set;
use crate::world::Limits;

pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    pub(crate) limits: Limits,
}

fn limits(calls: &[u8]) -> Limits {
    Limits { calls: calls.to_vec(), together: 1, keys: 1, ..Limits::default() }
}

/// The sets of runs that are asked for.
pub(crate) fn of(_set: Set, only: Option<&str>) -> Vec<Configuration> {
    let mut chosen = all();
    chosen.retain(|configuration| only.is_none_or(|only| configuration.name.contains(only)));
    chosen
}

#[cfg(feature = "sabotage")]
pub(crate) fn for_sabotage(only: Option<&str>) -> Vec<Configuration> {
    of(Set::Ci, only)
}

fn all() -> Vec<Configuration> {
    let named = |name, limits| Configuration { name, limits };
    vec![
        named("base: 3 processes", Limits { crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("local: 1 process, 3 calls", Limits { together: 3, breaks: 1, leaves: 1, closes: 1, ..limits(&[3]) }),
        named("local: 2 processes", Limits { together: 2, crashes: 1, breaks: 1, ..limits(&[2, 2]) }),
        named("local: leave", Limits { together: 2, leaves: 2, breaks: 1, ..limits(&[2, 2]) }),
        named("leave: 3 processes", Limits { leaves: 2, crashes: 1, ..limits(&[1, 1, 1]) }),
        named("leave: break", Limits { leaves: 1, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("close: crash", Limits { closes: 1, crashes: 1, ..limits(&[1, 1, 1]) }),
        named("close: break, resign", Limits { closes: 1, breaks: 1, resignations: 1, ..limits(&[1, 1, 1]) }),
        named("abort", Limits { aborts: 1, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("resign", Limits { resignations: 2, crashes: 1, ..limits(&[1, 1, 1]) }),
        named("again: 2 processes", Limits { crashes: 1, breaks: 1, resignations: 1, ..limits(&[2, 2]) }),
        named("again: 3 processes", Limits { breaks: 1, ..limits(&[2, 1, 1]) }),
        named("expire", Limits { expiries: 1, breaks: 2, crashes: 1, ..limits(&[1, 1, 1]) }),
        named("full", Limits { clogs: 2, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("replaced lock", Limits { replaced_locks: 1, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("replaced term", Limits { replaced_terms: 1, crashes: 1, breaks: 1, ..limits(&[2, 1, 1]) }),
        named("replaced directory", Limits { replaced_directories: 1, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("restored epoch", Limits { restored_epochs: 1, resignations: 1, crashes: 1, ..limits(&[2, 1, 1]) }),
        named("collision", Limits { collisions: 2, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("untaken", Limits { untaken: 1, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("child", Limits { orphaned_children: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("long leases", Limits { long_leases: true, crashes: 1, breaks: 1, ..limits(&[1, 1, 1]) }),
        named("two keys", Limits { keys: 2, together: 2, crashes: 1, ..limits(&[2, 2]) }),
    ]
}
