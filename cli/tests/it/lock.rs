//! `flight lock`.

use crate::support::{Going, KILL, TERM, World, finish, until_true, wait_for};

#[test]
fn one_at_a_time_and_each_its_own() {
    let world = World::new();
    let script = "echo start >>log; sleep 0.03; echo end >>log";
    let callers: Vec<Going> =
        (0..8).map(|_| Going::start(&mut world.flight(&["lock", "k", "--", "sh", "-c", script]))).collect();
    for caller in callers {
        assert_eq!(caller.end().code, Some(0));
    }
    assert_eq!(world.read("log"), "start\nend\n".repeat(8));
}

#[test]
fn busy_past_the_limit_is_75() {
    let world = World::new();
    let holder = Going::start(&mut world.flight(&[
        "lock",
        "k",
        "--",
        "sh",
        "-c",
        &format!("echo ready; {}; exit 3", wait_for("go")),
    ]));
    holder.says("ready");
    let at_once = finish(&mut world.flight(&["lock", "--no-wait", "k", "--", "touch", "ran"]));
    assert_eq!((at_once.code, &*at_once.err), (Some(75), "flight: \"k\" is busy\n"));
    let later = finish(&mut world.flight(&["lock", "--wait", "0.2", "k", "--", "touch", "ran"]));
    assert_eq!(later.code, Some(75), "{later:?}");
    let waits = Going::start(&mut world.flight(&["lock", "k", "--", "echo", "mine"]));
    waits.complains("flight: waiting for \"k\": its lock is held");
    // A run of the key waits for it too.
    let runs = Going::start(&mut world.run("k", "echo run"));
    runs.complains("flight: waiting for \"k\": its lock is held");
    world.touch("go");
    assert_eq!(holder.end().code, Some(3));
    assert_eq!(waits.end().out, "mine\n");
    assert_eq!(runs.end().out, "run\n");
    assert!(!world.path("ran").exists());
    until_true("no mark is left", || world.spools().is_empty());
}

#[test]
fn signals_and_deaths_are_as_those_of_run() {
    let world = World::new();
    let script = format!("echo ready; trap 'exit 9' TERM; {}", wait_for("go"));
    let holder = Going::start(&mut world.flight(&["lock", "k", "--", "sh", "-c", &script]));
    holder.says("ready");
    holder.signal(TERM);
    assert_eq!(holder.end().code, Some(9));
    // Killed: the command keeps it.
    let holder = Going::start(&mut world.flight(&["lock", "k", "--", "sh", "-c", &script]));
    holder.says("ready");
    holder.signal(KILL);
    assert_eq!(finish(&mut world.flight(&["lock", "--no-wait", "k", "--", "true"])).code, Some(75));
    world.touch("go");
    assert_eq!(finish(&mut world.flight(&["lock", "k", "--", "true"])).code, Some(0));
    // Left in the background: it does not.
    let ended = finish(&mut world.flight(&["lock", "k", "--", "sh", "-c", "sleep 5 >/dev/null 2>&1 & exit 4"]));
    assert_eq!(ended.code, Some(4));
    assert_eq!(finish(&mut world.flight(&["lock", "--no-wait", "k", "--", "true"])).code, Some(0));
    // Stopped: waited for.
    let holder = Going::start(&mut world.flight(&["lock", "k", "--", "sh", "-c", "echo ready; exec sleep 100"]));
    holder.says("ready");
    holder.stop();
    assert_eq!(finish(&mut world.flight(&["lock", "--wait", "0.1", "k", "--", "true"])).code, Some(75));
}
