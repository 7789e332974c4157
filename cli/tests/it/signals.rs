//! Who gets a signal, and what remains after one that cannot be caught.

use std::thread;
use std::time::Duration;

use crate::support::{
    CONT, Going, HUP, INT, KILL, QUIT, TERM, World, finish, is_alive, signal_to, until, until_true, wait_for,
};

#[test]
fn a_signal_to_the_leader_goes_to_the_command() {
    for (signal, name) in [(TERM, "TERM"), (INT, "INT"), (HUP, "HUP"), (QUIT, "QUIT")] {
        let world = World::new();
        let script = format!("trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let leader = Going::start(&mut world.run("k", &script));
        leader.says("ready");
        let joiner = Going::start(&mut world.run("k", "true"));
        world.joined("k", 1);
        leader.signal(signal);
        for caller in [leader, joiner] {
            let ended = caller.end();
            assert_eq!((ended.code, &*ended.out), (Some(9), &*format!("ready\ngot {name}\n")), "{ended:?}");
        }
        assert_eq!(finish(&mut world.run("k", "echo free")).out, "free\n");
    }
}

#[test]
fn a_command_that_a_signal_ends_gives_128_and_its_number_to_all() {
    let world = World::new();
    let leader = Going::start(&mut world.run("k", "echo ready; exec sleep 100"));
    leader.says("ready");
    let joiner = Going::start(&mut world.run("k", "true"));
    world.joined("k", 1);
    leader.signal(TERM);
    assert_eq!((leader.end().code, joiner.end().code), (Some(143), Some(143)));
}

#[test]
fn a_signal_to_a_joiner_is_its_own() {
    let world = World::new();
    let leader = Going::start(&mut world.run("k", &format!("echo ready; {}", wait_for("go"))));
    leader.says("ready");
    for signal in [TERM, INT, HUP, QUIT] {
        let joiner = Going::start(&mut world.run("k", "true"));
        world.joined("k", 1);
        joiner.signal(signal);
        assert_eq!(joiner.end().code, Some(128 + signal));
        world.joined("k", 0);
    }
    world.touch("go");
    assert_eq!(leader.end().code, Some(0));
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let world = World::new();
    let script = format!("echo ready $$; {}; echo alive", wait_for("go"));
    let mut nohup = std::process::Command::new("sh");
    let plain = world.run("k", &script);
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    nohup.current_dir(world.path("")).env("FLIGHT_DIR", world.flights());
    let leader = Going::start(&mut nohup);
    leader.says("\n");
    leader.signal(HUP);
    let command: u32 = leader.out().trim().rsplit(' ').next().unwrap().parse().unwrap();
    signal_to(command, HUP);
    world.touch("go");
    let ended = leader.end();
    assert_eq!((ended.code, &*ended.out), (Some(0), &*format!("ready {command}\nalive\n")));
}

#[test]
fn a_killed_wrapper_leaves_the_key_with_its_command() {
    for is_coordinator in [true, false] {
        let world = World::new();
        let other = (!is_coordinator).then(|| {
            let other = Going::start(&mut world.run("other", &format!("echo ready; {}", wait_for("go"))));
            other.says("ready");
            other
        });
        let script = format!("echo start >>log; echo ready; {}; echo end >>log", wait_for("go"));
        let leader = Going::start(&mut world.run("k", &script));
        leader.says("ready");
        let joiner = Going::start(&mut world.run("k", "echo never >>log"));
        world.joined("k", 1);
        leader.signal(KILL);
        let next = Going::start(&mut world.run("k", "echo start >>log; echo end >>log"));
        next.complains("waiting for \"k\": ");
        assert_eq!(world.read("log"), "start\n", "the command of the killed one still runs");
        world.touch("go");
        let joiner = joiner.end();
        assert_eq!(joiner.code, Some(76), "{joiner:?}");
        assert!(joiner.err.contains("interrupted"), "{joiner:?}");
        // The third may have come early enough to join the second's flight.
        let next = next.end();
        assert!(next.code == Some(0), "{next:?}");
        until("each run ends before the next begins", || {
            let log = world.read("log");
            if log == "start\nend\nstart\nend\n" { Ok(()) } else { Err(log) }
        });
        drop(other);
        // What it left is swept by the next leader.
        assert_eq!(finish(&mut world.run("x", "true")).code, Some(0));
        until_true("no spool is left", || world.spools().is_empty());
    }
}

#[test]
fn a_background_process_keeps_neither_the_key_nor_the_caller_and_lives() {
    let world = World::new();
    // It has the command's streams, writes to them, and would be ended by that if nobody read.
    let script =
        format!("({}; echo more; echo more >&2; touch alive; {}) & echo $! ; exit 3", wait_for("go"), wait_for("stop"));
    let ended = finish(&mut world.run("k", &script));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let left: u32 = ended.out.lines().last().unwrap().parse().unwrap();
    assert!(is_alive(left));
    let next = finish(&mut world.run("k", "echo free"));
    assert_eq!((next.code, &*next.out), (Some(0), "free\n"), "{next:?}");
    world.touch("go");
    until_true("it could write", || world.path("alive").exists());
    assert!(is_alive(left));
    world.touch("stop");
    until_true("it ended by itself", || !is_alive(left));
}

#[test]
fn output_of_a_command_that_ends_at_once_is_whole() {
    let world = World::new();
    for _ in 0..10 {
        let ended = finish(&mut world.run("k", "head -c 60000 /dev/zero; sleep 30 & exit 0"));
        assert_eq!((ended.code, ended.out.len()), (Some(0), 60_000));
    }
}

#[test]
fn a_stopped_coordinator_is_waited_for_and_told() {
    let world = World::new();
    let first = Going::start(&mut world.run("other", &format!("echo ready; {}", wait_for("go"))));
    first.says("ready");
    first.stop();
    let waits = Going::start(&mut world.run("k", "echo ran"));
    waits.complains("the coordinator, process ");
    let line = waits.err();
    assert!(line.contains(&first.pid().to_string()) && line.contains("does not answer"), "{line}");
    let limited = finish(&mut world.flight(&["run", "--wait", "1.5", "l", "--", "true"]));
    assert_eq!(limited.code, Some(75), "{limited:?}");
    assert!(limited.err.contains("does not answer"), "{limited:?}");
    let status = finish(&mut world.flight(&["status"]));
    assert!(status.out.contains(&format!("process {} holds its lock and does not answer", first.pid())), "{status:?}");
    first.signal(CONT);
    let ended = waits.end();
    assert_eq!((ended.code, &*ended.out), (Some(0), "ran\n"), "{ended:?}");
    world.touch("go");
    assert_eq!(first.end().code, Some(0));
}

#[test]
fn a_stopped_leader_is_waited_for_and_a_stopped_joiner_by_nobody() {
    let world = World::new();
    let coordinator = Going::start(&mut world.run("other", &format!("echo ready; {}", wait_for("stop"))));
    coordinator.says("ready");
    let leader = Going::start(&mut world.run("k", &format!("echo ready; {}; echo done", wait_for("go"))));
    leader.says("ready");
    let stopped = Going::start(&mut world.run("k", "true"));
    let joiner = Going::start(&mut world.run("k", "true"));
    world.joined("k", 2);
    stopped.stop();
    leader.stop();
    joiner.complains(&format!("process {}", leader.pid()));
    world.touch("go");
    // tidy: by then the command has ended, and nobody can know it.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(joiner.out(), "ready\n");
    leader.signal(CONT);
    assert_eq!(joiner.end().out, "ready\ndone\n");
    assert_eq!(leader.end().code, Some(0));
    stopped.signal(CONT);
    let ended = stopped.end();
    assert_eq!((ended.code, &*ended.out), (Some(0), "ready\ndone\n"), "{ended:?}");
    world.touch("stop");
    assert_eq!(coordinator.end().code, Some(0));
}

#[test]
fn a_leader_that_has_ended_waits_for_a_stopped_coordinator_and_says_so() {
    let world = World::new();
    let coordinator = Going::start(&mut world.run("other", &format!("echo ready; {}", wait_for("stop"))));
    coordinator.says("ready");
    let leader = Going::start(&mut world.run("k", &format!("echo ready; {}; echo done; exit 6", wait_for("go"))));
    leader.says("ready");
    let joiner = Going::start(&mut world.run("k", "true"));
    world.joined("k", 1);
    coordinator.stop();
    world.touch("go");
    leader.complains(&format!(
        "\"k\" has ended; waiting until the coordinator, process {}, has told the others",
        coordinator.pid()
    ));
    assert_eq!(leader.out(), "ready\ndone\n");
    coordinator.signal(CONT);
    assert_eq!((leader.end().code, joiner.end().code), (Some(6), Some(6)));
    world.touch("stop");
    assert_eq!(coordinator.end().code, Some(0));
}
