//! What happens to the leader of a flight.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::group::Group;

#[test]
fn the_leader_is_killed() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner, other] = group.members();
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    coordinator.joins("b", "k", token);
    leader.kill();
    for joined in [&joiner, &coordinator] {
        let interrupted = joined.hear("failed b");
        assert_eq!((interrupted[0].as_str(), interrupted[1].parse()), ("Interrupted", Ok(token)));
    }
    let next = other.calls("c", "k");
    assert!(next > token, "the next call leads, with a greater token");
    assert_eq!(group.check().runs("k"), 2);
    println!("its joiners heard Interrupted with its token {token}; the next call led with {next}");
}

#[test]
fn the_leader_is_killed_and_its_child_lives_on() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner] = group.members();
    leader.tell("call a 0 k child");
    let token = leader.hear_number("start a");
    let child = Pid::from_raw(i32::try_from(leader.hear_number("child a")).unwrap()).unwrap();
    joiner.joins("b", "k", token);
    leader.kill();
    // The child has the key: its work may still be at it.
    joiner.tell("call c 0 k now 500");
    let timed_out = joiner.hear("failed c").join(" ");
    assert!(timed_out.starts_with("TimedOut"), "{timed_out}");
    assert!(!joiner.has_told("failed b"), "it is interrupted when the kernel frees the key");
    coordinator.tell("call d 0 k now");
    kill_process(child, Signal::KILL).unwrap();
    assert_eq!(joiner.hear("failed b")[0], "Interrupted");
    assert!(coordinator.hear_number("landed d") > token);
    assert_eq!(group.check().runs("k"), 2);
    println!(
        "the child kept the key of its killed parent; when it ended the joiner heard Interrupted, and the next call led"
    );
}

#[test]
fn the_leader_is_frozen() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner, late] = group.members();
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    leader.freeze();
    late.tell("call c 0 k now");
    late.tell("call d 0 k now 500");
    let timed_out = late.hear("failed d").join(" ");
    assert!(timed_out.contains(&format!("process {} ", leader.pid())), "it says whom it waited for: {timed_out}");
    // tidy: the story is that it stays frozen for three seconds.
    std::thread::sleep(Duration::from_secs(3));
    for member in [&late, &joiner, &coordinator] {
        for what in ["landed", "failed", "start"] {
            assert!(
                !member.has_told(&format!("{what} b")) && !member.has_told(&format!("{what} c")),
                "the key is held"
            );
        }
    }
    leader.thaw();
    leader.tell("finish a");
    assert_eq!(leader.hear_number("landed a"), token);
    assert_eq!(joiner.hear_number("landed b"), token);
    let role = late.hear("landed c");
    let flights = group.check();
    println!("for 3 s its joiner and a later caller waited; then it landed, and the later caller {}", role[1]);
    assert!(flights.runs("k") <= 2);
}

#[test]
fn the_leaders_lock_file_is_removed_by_hand() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner] = group.members();
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    std::fs::remove_file(group.lock_file("k")).unwrap();
    let removed = Instant::now();
    assert_eq!(leader.hear_number("lost a"), token);
    let told = removed.elapsed();
    assert!(told < Duration::from_secs(2), "it was told after {told:?}");
    assert_eq!(joiner.hear("failed b")[0], "Interrupted");
    let next = coordinator.calls("c", "k");
    assert!(next > token);
    leader.tell("finish a");
    assert_eq!(leader.hear("failed a")[0], "LeaseLost");
    assert_eq!(group.check().runs("k"), 2);
    println!("the leader heard after {} ms that it lost its lease", told.as_millis());
}
