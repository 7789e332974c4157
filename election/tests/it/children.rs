//! What the other processes of the tests do.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process;
use std::thread;

use flight_election::{Election, Leadership};

use crate::election_in;
use crate::process::{FOLDER, ROLE, say, wait_for_parent};

/// Where the children of the role `takes turns` note when they lead.
pub(crate) const LOG: &str = "log";

/// How often each of them leads.
pub(crate) const TURNS: usize = 5;

/// Not a test of its own: without a role it has nothing to do.
#[test]
fn role() {
    let (Ok(role), Some(folder)) = (env::var(ROLE), env::var_os(FOLDER)) else { return };
    let folder = Path::new(&folder);
    match role.as_str() {
        "leads" => leads(folder),
        "takes turns" => takes_turns(folder),
        "campaigns without end" => campaigns_without_end(folder),
        #[cfg(unix)]
        "forks" => crate::unix::forks(folder),
        #[cfg(unix)]
        "is a stranger" => crate::unix::is_a_stranger(folder),
        #[cfg(target_os = "linux")]
        "fills the disk" => crate::scarcity::fills_the_disk(folder),
        #[cfg(target_os = "linux")]
        "uses up the files" => crate::scarcity::uses_up_the_files(folder),
        #[cfg(target_os = "linux")]
        "becomes read-only" => crate::scarcity::becomes_read_only(folder),
        #[cfg(target_os = "linux")]
        "has no descriptors" => crate::scarcity::has_no_descriptors(folder),
        other => panic!("there is no role {other:?}"),
    }
}

fn lead(election: &Election) -> Leadership {
    election.campaign_blocking(None).expect("nothing is in the way").expect("there is no limit")
}

/// Campaigns, says its epoch, and leads until the parent says otherwise.
fn leads(folder: &Path) {
    say("campaigns");
    let leadership = lead(&election_in(folder));
    say(&leadership.epoch().to_string());
    wait_for_parent();
    leadership.resign().expect("the lock is ours");
}

/// Leads a few times for a moment, and notes when: each note is one write to the end of the log.
fn takes_turns(folder: &Path) {
    let mut log = OpenOptions::new().append(true).create(true).open(folder.join(LOG)).expect("the log can be opened");
    let election = election_in(folder);
    say("is ready");
    wait_for_parent();
    for _ in 0..TURNS {
        let leadership = lead(&election);
        let mut note = |what| {
            let line = format!("{what} {} {}\n", leadership.epoch(), process::id());
            log.write_all(line.as_bytes()).expect("the log can be written");
        };
        note("begin");
        // Somebody else who leads too gets every chance to show it.
        for _ in 0..20 {
            thread::yield_now();
        }
        note("end");
        leadership.resign().expect("the lock is ours");
    }
}

/// Writes one epoch after the other, until it is killed.
fn campaigns_without_end(folder: &Path) {
    let election = election_in(folder);
    say(&lead(&election).epoch().to_string());
    loop {
        lead(&election).resign().expect("the lock is ours");
    }
}
