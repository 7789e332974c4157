//! A fork without exec: the child refuses what it inherited, and does no harm to it.

use std::io;

use single_flight::{CloseError, RunError, blocking};

const SWITCH: &str = "FLIGHT_TEST_FORK";

#[test]
fn a_forked_child_refuses_what_it_inherited() {
    if std::env::var_os(SWITCH).is_some() {
        return fork_and_try();
    }
    // In a process of its own, with one thread for the tests: whatever else runs here could hold a lock of the allocator at the fork.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fork::a_forked_child_refuses_what_it_inherited", "--nocapture", "--test-threads=1"])
        .env(SWITCH, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn fork_and_try() {
    let home = tempfile::tempdir().unwrap();
    let flights = blocking::SingleFlight::<u32>::open(home.path()).unwrap();
    let flight = flights.run("k", |lease| {
        // Its service thread waits for what happens, and holds nothing meanwhile.
        // SAFETY: the child calls what is below, which takes no lock that another thread of this process could have, and ends.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| refuses(&flights, lease)));
                // SAFETY: ends the child without what its parent has registered for the end of the process.
                unsafe { libc::_exit(i32::from(right.is_err())) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the pointer leads to a number that outlives the call.
                let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!((ended, status), (child, 0), "the child failed");
                // The key is still ours.
                assert!(!lease.is_lost() && crate::key_locks(&home).try_is_held(b"k").unwrap());
                Ok(7)
            }
        }
    });
    assert_eq!(flight.wait().unwrap().value, 7);
    assert_eq!(flights.run("k", |_| Ok::<_, io::Error>(8)).wait().unwrap().value, 8, "the parent goes on");
    flights.close().unwrap();
}

fn refuses(flights: &blocking::SingleFlight<u32>, lease: &single_flight::Lease) {
    let called = flights.run("l", |_| Ok::<_, io::Error>(0)).wait();
    assert!(matches!(called, Err(RunError::Forked { .. })), "{called:?}");
    assert!(matches!(flights.close(), Err(CloseError::Forked)));
    assert!(flights.status().report.is_none());
    assert!(lease.spawn(&mut std::process::Command::new("true")).is_err());
    drop(lease.clone());
    drop(flights.clone());
}
