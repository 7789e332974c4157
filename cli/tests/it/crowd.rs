//! Many at once, and one after the other beside long ones.

use std::collections::BTreeSet;

use crate::support::{Going, World, finish, until_true, wait_for};

#[test]
fn forty_start_at_once_in_a_directory_that_does_not_exist() {
    let world = World::new();
    let go = wait_for("go");
    let callers: Vec<Going> = (0..40)
        .map(|number| {
            // Half of them share a key, half have one of their own.
            let own = format!("own {number}");
            let (key, log) = if number % 2 == 0 { ("shared", "shared") } else { (&*own, "own") };
            let script = format!("echo $FLIGHT_EPOCH >>{log}; {go}");
            let mut flight = world.flight(&["run", "--quiet", key, "--", "sh", "-c", &script]);
            Going::start(flight.env("FLIGHT_DIR", world.path("a/b/flights")))
        })
        .collect();
    until_true("all own runs go on", || world.lines("own") == 20);
    until_true("the shared run has all", || {
        let status = finish(world.flight(&["status", "--json"]).env("FLIGHT_DIR", world.path("a/b/flights")));
        let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
        let flights = status["report"]["flights"].as_array().cloned().unwrap_or_default();
        flights.iter().any(|flight| {
            flight["key"] == "shared" && flight["joiner_pids"].as_array().is_some_and(|pids| pids.len() == 19)
        })
    });
    world.touch("go");
    for caller in callers {
        let ended = caller.end();
        assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:?}");
    }
    assert_eq!(world.lines("shared"), 1);
    let epochs: BTreeSet<String> =
        [world.read("shared"), world.read("own")].join("").lines().map(str::to_owned).collect();
    assert_eq!(epochs.len(), 1, "one coordinator: {epochs:?}");
}

#[test]
fn a_hundred_short_ones_disturb_no_long_one() {
    let world = World::new();
    let long: Vec<Going> = (0..5)
        .map(|number| {
            let long = Going::start(
                &mut world.run(&format!("long {number}"), &format!("echo ready; {}; echo done", wait_for("go"))),
            );
            long.says("ready");
            long
        })
        .collect();
    for _ in 0..100 {
        let ended = finish(&mut world.flight(&["run", "short", "--", "true"]));
        assert_eq!((ended.code, &*ended.err), (Some(0), ""));
    }
    world.touch("go");
    for long in long {
        let ended = long.end();
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(0), "ready\ndone\n", ""));
    }
    assert!(world.spools().is_empty());
}
