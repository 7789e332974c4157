//! What happens to the process that connects the others.

use std::time::{Duration, Instant};

use crate::group::Group;

#[test]
fn the_coordinator_is_killed_while_a_work_runs() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, first, second] = group.members();
    let token = leader.leads("a", "k");
    first.joins("b", "k", token);
    second.joins("b", "k", token);
    coordinator.kill();
    // They find each other again before the work ends.
    let late = group.member();
    late.joins("c", "k", token);
    let next = late.status();
    assert!(u64::from(next.epoch) > token >> 32, "{next:?}");
    assert!(next.flights == 1 && next.joiners >= 1, "it knows of the flight again: {next:?}");
    leader.tell("finish a");
    for (member, id) in [(&leader, "a"), (&first, "b"), (&second, "b"), (&late, "c")] {
        assert_eq!(member.hear_number(&format!("landed {id}")), token);
    }
    assert_eq!(group.check().runs("k"), 1);
    println!("the work ran once; its two joiners and one that came under the next coordinator got its value");
}

#[test]
fn the_coordinator_is_killed_while_a_work_lands() {
    let group = Group::new();
    for round in 0..40 {
        let key = format!("k-{round}");
        let [leader, first, second] = group.members();
        let coordinator = group.coordinator();
        let token = leader.leads("a", &key);
        first.joins("b", &key, token);
        second.joins("b", &key, token);
        leader.tell("finish a");
        // tidy: each time it meets another point of the landing.
        std::thread::sleep(Duration::from_micros(25) * round);
        coordinator.kill_idle();
        for (member, id) in [(&leader, "a"), (&first, "b"), (&second, "b")] {
            assert_eq!(member.hear_number(&format!("landed {id}")), token);
        }
        assert_eq!(group.check().runs(&key), 1);
        [leader, first, second].iter().for_each(crate::member::Member::kill_idle);
    }
    println!("40 times the work ran once, and both joiners got its value");
}

#[test]
fn coordinator_and_leader_are_killed() {
    let group = Group::new();
    // Once as two processes, once as one.
    for apart in [true, false] {
        let key = format!("apart-{apart}");
        let coordinator = group.coordinator();
        let [member, joiner, other] = group.members();
        let leader = if apart { &member } else { &coordinator };
        let token = leader.leads("a", &key);
        joiner.joins("b", &key, token);
        other.joins("b", &key, token);
        leader.freeze();
        if apart {
            coordinator.kill();
        }
        leader.kill_frozen();
        for joined in [&joiner, &other] {
            let interrupted = joined.hear("failed b");
            assert_eq!((interrupted[0].as_str(), interrupted[1].parse()), ("Interrupted", Ok(token)));
        }
        let next = joiner.calls("c", &key);
        assert!(next >> 32 > token >> 32, "the next call leads in a new term");
        assert_eq!(group.check().runs(&key), 2);
        for rest in [&member, &joiner, &other].into_iter().filter(|rest| rest.pid() != leader.pid()) {
            rest.kill();
        }
    }
    println!("as two processes and as one: joiners heard Interrupted, the next call led in a new term");
}

#[test]
fn the_coordinator_is_frozen() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner, caller] = group.members();
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    // Connected before, as a process that calls now and then is.
    caller.calls("before", "other");
    let epoch = group.epoch();
    coordinator.freeze();
    let frozen = Instant::now();
    let newcomer = group.member();
    for member in [&caller, &newcomer] {
        member.tell("call b 0 k now 2500");
        let timed_out = member.hear("failed b").join(" ");
        assert!(timed_out.contains(&format!("process {}", coordinator.pid())), "it names the frozen one: {timed_out}");
        member.tell("call c 0 k now");
        member.tell("call d 0 l now");
    }
    // Its landing is in the kernel, so that the leader's call returns all the same.
    leader.tell("finish a");
    assert_eq!(leader.hear_number("landed a"), token);
    // tidy: the story is that it stays frozen for three seconds.
    std::thread::sleep(Duration::from_secs(3).saturating_sub(frozen.elapsed()));
    for (member, id) in [(&joiner, "b"), (&caller, "c"), (&caller, "d"), (&newcomer, "c"), (&newcomer, "d")] {
        for what in ["landed", "failed", "start"] {
            assert!(!member.has_told(&format!("{what} {id}")), "nothing is granted");
        }
    }
    assert_eq!(group.epoch(), epoch, "nobody took its place");
    coordinator.thaw();
    assert_eq!(joiner.hear_number("landed b"), token);
    for member in [&caller, &newcomer] {
        member.hear("landed c");
        let flight = member.hear_number("landed d");
        assert_eq!(flight >> 32, u64::from(epoch), "in the term of the one that was frozen");
    }
    assert_eq!(group.epoch(), epoch);
    group.check();
    println!(
        "for 3 s everybody waited and a limit named process {}; then all calls ended, in epoch {epoch}",
        coordinator.pid()
    );
}

#[test]
fn a_frozen_joiner_delays_nobody() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, frozen, joiner] = group.members();
    // Once the coordinator leads itself.
    for (round, leader) in [&leader, &coordinator].into_iter().enumerate() {
        let id = format!("a{round}");
        // More than a socket takes.
        leader.tell(&format!("call {id} 0 k hold:4000000"));
        let token = leader.hear_number(&format!("start {id}"));
        frozen.joins(&id, "k", token);
        joiner.joins(&id, "k", token);
        frozen.freeze();
        leader.tell(&format!("finish {id}"));
        let finished = Instant::now();
        for member in [leader, &joiner] {
            assert_eq!(member.hear_number(&format!("landed {id}")), token);
        }
        let landed = finished.elapsed();
        assert!(joiner.calls(&format!("b{round}"), "k") > token);
        let next = finished.elapsed();
        frozen.thaw();
        assert_eq!(frozen.hear_number(&format!("landed {id}")), token, "it gets what it joined all the same");
        assert!(next < Duration::from_secs(3), "the next call waited for {next:?}");
        println!("landed after {} ms, next call after {} ms;", landed.as_millis(), next.as_millis());
    }
    group.check();
}
