//! `flight status`.

use crate::support::{Going, TERM, World, finish, wait_for};

#[test]
fn nobody_is_told_and_nobody_elected() {
    let world = World::new();
    let ended = finish(&mut world.flight(&["status"]));
    assert_eq!((ended.code, &*ended.out), (Some(0), "coordinator: there is none: the directory does not exist\n"));
    assert!(!world.flights().exists());
    assert_eq!(finish(&mut world.run("k", "true")).code, Some(0));
    let epoch = world.read("flights/flight.epoch");
    let ended = finish(&mut world.flight(&["status"]));
    assert_eq!((ended.code, &*ended.out), (Some(0), "coordinator: there is none: nothing is in flight\n"));
    assert_eq!(world.read("flights/flight.epoch"), epoch);
}

#[test]
fn flights_leaders_joiners_and_those_who_wait_are_told() {
    let world = World::new();
    let leader = Going::start(&mut world.run("a key", &format!("echo ready; {}", wait_for("go"))));
    leader.says("ready");
    let joiner = Going::start(&mut world.run("a key", "true"));
    world.joined("a key", 1);
    let holder = Going::start(&mut world.flight(&[
        "lock",
        "held",
        "--",
        "sh",
        "-c",
        &format!("echo ready; {}", wait_for("go")),
    ]));
    holder.says("ready");
    let waits = Going::start(&mut world.run("held", "true"));
    world.waiting("held", 1);
    let ended = finish(&mut world.flight(&["status"]));
    let (leads, joined, waiting) = (leader.pid(), joiner.pid(), waits.pid());
    for words in [
        format!("coordinator: process {leads}, epoch "),
        "\"a key\": token ".to_owned(),
        format!("process {leads} (sh -c echo ready"),
        format!("1 joined: process {joined}"),
        format!("\"held\": 1 wait (process {waiting})"),
    ] {
        assert!(ended.out.contains(&words), "{words}: {}", ended.out);
    }
    let json = world.status();
    assert_eq!(json["coordinator"]["pid"], leads);
    assert_eq!(json["report"]["flights"][0]["joiner_pids"][0], joined);
    leader.stop();
    let json = world.status();
    assert_eq!((&json["coordinator"]["pid"], &json["report"]), (&leads.into(), &serde_json::Value::Null), "{json}");
}

#[test]
fn watched_it_is_told_again_until_a_signal() {
    let world = World::new();
    let watch = Going::start(&mut world.flight(&["status", "--watch", "--json"]));
    watch.says("does not exist");
    let leader = Going::start(&mut world.run("k", &format!("echo ready; {}", wait_for("go"))));
    watch.says("\"key\":\"k\"");
    world.touch("go");
    assert_eq!(leader.end().code, Some(0));
    watch.says("nothing is in flight");
    watch.signal(TERM);
    assert_eq!(watch.end().code, Some(143));
}
