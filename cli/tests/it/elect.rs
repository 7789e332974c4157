//! `flight elect`.

use std::fs;

use crate::support::{Going, KILL, World, finish, is_alive, signal_to, until_true, wait_for};

#[test]
fn one_leads_and_the_next_takes_over_with_a_greater_epoch() {
    let world = World::new();
    let elect = |go: &str| {
        let script = format!("echo $FLIGHT_NAME $FLIGHT_EPOCH $$; {}", wait_for(go));
        Going::start(&mut world.flight(&["elect", "n", "--", "sh", "-c", &script]))
    };
    let numbers = |going: &Going| -> (u64, u32) {
        going.says("\n");
        let out = going.out();
        let words: Vec<&str> = out.split_whitespace().collect();
        assert_eq!(words[0], "n");
        (words[1].parse().unwrap(), words[2].parse().unwrap())
    };
    let first = elect("one");
    let (first_epoch, _) = numbers(&first);
    let second = elect("two");
    second.complains("flight: waiting for \"n\": another is elected");
    assert_eq!(second.out(), "");
    let ended = finish(&mut world.flight(&["elect", "--wait", "0.2", "n", "--", "true"]));
    assert_eq!(ended.code, Some(75), "{ended:?}");
    world.touch("one");
    assert_eq!(first.end().code, Some(0));
    let (second_epoch, command) = numbers(&second);
    assert!(second_epoch > first_epoch);
    // Killed with its command alive: the next leads when that has ended.
    let third = elect("three");
    second.signal(KILL);
    third.complains("flight: waiting");
    assert_eq!(third.out(), "");
    assert!(is_alive(command));
    signal_to(command, KILL);
    let (third_epoch, _) = numbers(&third);
    assert!(third_epoch > second_epoch);
    // Another name is another election.
    assert_eq!(finish(&mut world.flight(&["elect", "m", "--", "true"])).code, Some(0));
    world.touch("three");
    assert_eq!(third.end().code, Some(0));
}

#[test]
fn a_lost_leadership_ends_the_command_first_by_term_then_by_kill() {
    for (script, killed) in [
        ("trap 'echo term; exit 0' TERM; echo $$; while :; do sleep 0.02; done", false),
        ("trap '' TERM; echo $$; while :; do sleep 0.02; done", true),
    ] {
        let world = World::new();
        let leader = Going::start(&mut world.flight(&["elect", "n", "--", "sh", "-c", script]));
        leader.says("\n");
        let command: u32 = leader.out().trim().parse().unwrap();
        let folder = fs::read_dir(world.flights().join("elections")).unwrap().next().unwrap().unwrap().path();
        fs::remove_file(folder.join("flight.lock")).unwrap();
        let ended = leader.end();
        assert_eq!(ended.code, Some(76), "{ended:?}");
        assert_eq!(ended.out.contains("term"), !killed, "{ended:?}");
        assert!(ended.err.contains("removed or replaced"), "{ended:?}");
        until_true("the command is gone", || !is_alive(command));
    }
}
