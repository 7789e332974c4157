//! Figures: many processes, much output, and the time that a call takes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]
#![allow(clippy::print_stdout, reason = "the figures are for those who run it")]

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::{Going, World, finish, until_true, wait_for};

#[path = "../support/mod.rs"]
mod support;

#[test]
fn two_hundred_start_at_once_in_an_empty_directory() {
    let world = World::new();
    // The run goes on until all have joined: each of them, also the last, is one of the same run.
    let script = format!("echo $FLIGHT_EPOCH >>runs; {}", wait_for("go"));
    let begun = Instant::now();
    let callers: Vec<Going> = (0..200)
        .map(|_| Going::start(&mut world.flight(&["run", "--quiet", "k", "--", "sh", "-c", &script])))
        .collect();
    world.joined("k", 199);
    let joined = begun.elapsed();
    let epoch = world.status()["report"]["epoch"].clone();
    world.touch("go");
    for caller in callers {
        let ended = caller.end();
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(0), "", ""), "{ended:?}");
    }
    assert_eq!(world.lines("runs"), 1);
    assert_eq!(world.read("runs").trim(), epoch.to_string(), "one coordinator from the beginning to the end");
    println!(
        "200 at once: all exit 0, 1 run, 1 coordinator (epoch {epoch}); all joined after {joined:.2?}, all ended after {:.2?}",
        begun.elapsed()
    );
}

#[test]
fn a_thousand_short_ones_in_a_row_disturb_no_long_one() {
    let world = World::new();
    // Each says every 50 ms that it goes on.
    let script = format!("echo ready; until [ -e go ]; do echo tick; sleep 0.05; done; {}; echo done", wait_for("go"));
    let long: Vec<(Going, Going)> = (0..5)
        .map(|number| {
            let key = format!("long {number}");
            let leader = Going::start(&mut world.flight(&["run", "--quiet", &key, "--", "sh", "-c", &script]));
            leader.says("ready");
            let joiner = Going::start(&mut world.flight(&["run", "--quiet", &key, "--", "echo", "never"]));
            joiner.says("ready");
            (leader, joiner)
        })
        .collect();
    let mut times: Vec<Duration> = (0..1000)
        .map(|_| {
            let begun = Instant::now();
            let status = world.flight(&["run", "short", "--", "true"]).stderr(Stdio::inherit()).status().unwrap();
            assert!(status.success());
            begun.elapsed()
        })
        .collect();
    world.touch("go");
    for (leader, joiner) in long {
        let (leader, joiner) = (leader.end(), joiner.end());
        assert_eq!((leader.code, joiner.code, &*leader.err, &*joiner.err), (Some(0), Some(0), "", ""));
        assert_eq!(leader.out, joiner.out);
        assert!(leader.out.ends_with("done\n"));
    }
    assert!(world.spools().is_empty(), "{:?}", world.spools());
    times.sort_unstable();
    println!(
        "1,000 in a row beside 5 long ones with a joiner each: all exit 0; median {:.2?}, 99th of 100 {:.2?}",
        times[500], times[990]
    );
}

#[test]
fn two_hundred_megabytes_reach_three_joiners_whole_and_take_little_memory() {
    const BYTES: usize = 200_000_000;
    let world = World::new();
    // Different everywhere, so that a lost or doubled piece shows.
    let script = format!(
        "echo begun; {}; yes 'a line that is counted' | cat -n | head -c {BYTES}; {}",
        wait_for("go"),
        wait_for("end")
    );
    let start = |command: &mut Command| {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let shown = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&shown);
        let read = thread::spawn(move || {
            let (mut sum, mut length, mut buffer) = (0_u64, 0_usize, vec![0; 1 << 16]);
            while let Ok(more @ 1..) = pipe.read(&mut buffer) {
                for byte in &buffer[..more] {
                    sum = sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte);
                }
                length += more;
                told.store(length, Ordering::Relaxed);
            }
            (sum, length)
        });
        (child, read, shown)
    };
    let leader = start(&mut world.flight(&["run", "--quiet", "k", "--", "sh", "-c", &script]));
    until_true("it leads", || world.flight_of("k").is_some());
    let mut all = vec![leader];
    all.extend((0..3).map(|_| start(&mut world.flight(&["run", "--quiet", "k", "--", "true"]))));
    world.joined("k", 3);
    let begun = Instant::now();
    world.touch("go");
    // All is shown, and the processes are there still: their high-water marks go with them.
    until_true("all of it is shown", || all.iter().all(|(_, _, shown)| shown.load(Ordering::Relaxed) == BYTES + 6));
    let peaks: Vec<u64> = all.iter().map(|(child, ..)| peak(child)).collect();
    world.touch("end");
    let results: Vec<(u64, usize)> = all
        .into_iter()
        .map(|(mut child, read, _)| {
            let result = read.join().unwrap();
            assert!(child.wait().unwrap().success());
            result
        })
        .collect();
    let took = begun.elapsed();
    assert!(results.iter().all(|result| *result == results[0] && result.1 == BYTES + 6), "{results:?}");
    assert!(peaks.iter().all(|peak| *peak < 32 << 10), "KiB: {peaks:?}");
    println!(
        "200 MB to 3 joiners: equal to the byte in {took:.2?}; peak memory of leader and joiners in KiB: {peaks:?}"
    );
}

/// The most memory that a process has had, in KiB.
fn peak(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_time_of_a_call_beside_that_of_flock() {
    const CALLS: usize = 200;
    let world = World::new();
    let median = |name: &str, command: &mut dyn FnMut() -> Command| {
        let mut times: Vec<Duration> = (0..CALLS)
            .map(|_| {
                let mut command = command();
                command.stdout(Stdio::null());
                let begun = Instant::now();
                assert!(command.status().unwrap().success());
                begun.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{name:<44} median {:>8.2?}, fastest {:>8.2?}", times[CALLS / 2], times[0]);
        times[CALLS / 2]
    };
    let file = world.path("file");
    median("true", &mut || Command::new("true"));
    median("flock FILE true", &mut || {
        let mut flock = Command::new("flock");
        flock.arg(&file).arg("true");
        flock
    });
    median("flight lock K -- true", &mut || world.flight(&["lock", "k", "--", "true"]));
    let cold = median("flight run K -- true, no coordinator", &mut || world.flight(&["run", "k", "--", "true"]));
    let other = Going::start(&mut world.run("other", &format!("echo ready; {}", wait_for("go"))));
    other.says("ready");
    let warm = median("flight run K -- true, a coordinator alive", &mut || world.flight(&["run", "k", "--", "true"]));
    world.touch("go");
    assert_eq!(other.end().code, Some(0));
    assert_eq!(finish(&mut world.run("k", "true")).code, Some(0));
    assert!(cold < Duration::from_millis(500) && warm < Duration::from_millis(500));
}
