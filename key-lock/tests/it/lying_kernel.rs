//! Kernels and file systems whose locks fail, lie or hang. They are played by a filter of the kernel's own (seccomp), which answers each
//! lock request of the process instead of the file system.

use std::path::Path;

use flight_key_lock::{KeyLocks, LocalDirectory};
use tempfile::tempdir;

use super::actor::{Actor, role, say};
use super::take;

/// From now on, each lock request of this thread, and of those that it starts, gets this answer: an error number, and 0 for "done".
fn answer_lock_requests(errno: i32) {
    let answer = libc::SECCOMP_RET_ERRNO | u32::try_from(errno).expect("a small number");
    let statement = |code: u32, k: u32| filter(code, 0, 0, k);
    let mut program = [
        // The number of the system call is the first word of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, u32::try_from(libc::SYS_flock).expect("a number")),
        statement(libc::BPF_RET | libc::BPF_K, answer),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program =
        libc::sock_fprog { len: u16::try_from(program.len()).expect("a short program"), filter: program.as_mut_ptr() };
    // SAFETY: takes numbers, and gives up rights that no test needs.
    let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the pointer leads to a program of the length that it names; the kernel copies both.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!((promised, set), (0, 0), "{}", std::io::Error::last_os_error());
}

fn filter(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).expect("a short code"), jt, jf, k }
}

/// The kinds of answer, as the manual pages and bug reports name them.
const REFUSALS: [(&str, i32); 4] =
    [("ENOLCK", libc::ENOLCK), ("EOPNOTSUPP", libc::EOPNOTSUPP), ("EBADF", libc::EBADF), ("EIO", libc::EIO)];

fn only_the_folder_stays(directory: &Path) {
    assert_eq!(super::names(directory), ["execution-locks"], "the file that tried the locks is gone");
}

#[test]
fn a_lock_request_that_fails_is_told_with_directory_and_step() {
    const TEST: &str = "lying_kernel::a_lock_request_that_fails_is_told_with_directory_and_step";
    for (name, errno) in REFUSALS {
        role(name, |path| {
            let directory = LocalDirectory::open(path).expect("it works at first");
            let locks = KeyLocks::new(&directory).expect("locks");
            answer_lock_requests(errno);
            let error = LocalDirectory::open(path).expect_err("its locks do not work").to_string();
            assert!(error.contains("lock a file in") && error.contains(&*path.to_string_lossy()), "{error}");
            let error = locks.look(b"k").expect_err("no run without a lock").to_string();
            let file = path.join("execution-locks").join(KeyLocks::file_name(b"k"));
            assert!(error.contains("lock") && error.contains(&*file.to_string_lossy()), "{error}");
            say("told");
        });
    }
    for (name, _) in REFUSALS {
        let home = tempdir().expect("a directory");
        Actor::start(TEST, name, home.path()).hear("told");
        only_the_folder_stays(home.path());
    }
}

#[test]
fn locks_that_everybody_is_granted_are_refused() {
    const TEST: &str = "lying_kernel::locks_that_everybody_is_granted_are_refused";
    role("grant", |path| {
        drop(take(&super::locks_at(path), "k"));
        answer_lock_requests(0);
        let error = LocalDirectory::open(path).expect_err("its locks mean nothing").to_string();
        assert!(error.contains("do not exclude") && error.contains(&*path.to_string_lossy()), "{error}");
        say("refused");
    });
    let home = tempdir().expect("a directory");
    Actor::start(TEST, "grant", home.path()).hear("refused");
    only_the_folder_stays(home.path());
}
