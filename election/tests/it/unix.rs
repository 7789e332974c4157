//! Processes that were forked from the winner, with all that it had; and processes of another user.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flight_election::{CampaignError, CampaignStep, Election, Leadership};
use flight_fencing::Epoch;

use crate::process::Process;
use crate::{EPOCH_FILE, LOCK_FILE, election, election_in, stored, win};

#[test]
fn what_a_forked_process_does_is_not_the_winners_doing() {
    let (folder, _) = election();
    Process::start("forks", folder.path()).finish();
}

/// In a process of its own, since the children of a fork have one thread only.
pub(crate) fn forks(folder: &Path) {
    let election = election_in(folder);
    let deeds: [fn(&Election, Leadership) -> bool; 4] = [
        |_, leadership| {
            drop(leadership);
            true
        },
        |_, leadership| leadership.resign().is_ok(),
        |election, leadership| {
            let in_the_way = matches!(election.try_campaign(), Ok(None));
            in_the_way && matches!(leadership.is_current(), Ok(false))
        },
        |_, mut leadership| {
            let above = Epoch::new(leadership.epoch().get() + 9);
            matches!(leadership.raise(above), Err(CampaignError::Forked { .. }))
        },
    ];
    for deed in deeds {
        let leadership = win(&election);
        let epoch = leadership.epoch();
        let leadership = in_forked_process(leadership, |leadership| deed(&election, leadership));
        assert!(leadership.is_current().expect("it can be looked at"));
        assert!(election.try_campaign().expect("nothing is in the way").is_none(), "the winner leads still");
        assert_eq!(stored(folder, EPOCH_FILE), epoch.get());
        leadership.resign().expect("the lock is ours");
    }
}

#[test]
fn a_stranger_is_told_whose_file_it_is_and_changes_nothing() {
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(io::stderr(), "SKIPPED: only root can become another user");
        return;
    }
    let (folder, election) = election();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("it is ours");
    let epoch = win(&election).epoch().get();
    Process::start("is a stranger", folder.path()).finish();
    assert_eq!(stored(folder.path(), EPOCH_FILE), epoch);
    assert_eq!(win(&election).epoch().get(), epoch + 1);
}

/// Finds a lock file that belongs to another user, in a directory that everybody may write to.
pub(crate) fn is_a_stranger(folder: &Path) {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: it changes who this process is, and has no preconditions.
    assert_eq!(unsafe { libc::setuid(NOBODY) }, 0, "root may become anybody");
    let error = election_in(folder).try_campaign().expect_err("the file is not ours");
    assert_eq!(error.step(), CampaignStep::Lock, "{error}");
    assert_eq!(error.path(), folder.join(LOCK_FILE));
    assert!(!error.is_transient(), "{error}");
    assert!(error.to_string().contains(LOCK_FILE), "{error}");
}

/// Forks; the child does the deed with its copy of the leadership and ends, and the parent keeps its own.
fn in_forked_process(leadership: Leadership, deed: impl FnOnce(Leadership) -> bool) -> Leadership {
    // SAFETY: what the child goes on to do is system calls, and memory that the C library keeps usable after a fork. It ends
    // without returning, so that nothing of the parent's is run twice.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        let code = if deed(leadership) { 0 } else { 1 };
        // SAFETY: it ends this process, and has no preconditions.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "the child is ours");
    assert_eq!(status, 0, "the child ended with wait status {status:#x}");
    leadership
}
