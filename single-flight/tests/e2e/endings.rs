//! Ways in which calls, handles and processes end, and what others have of them.

use std::time::Duration;

use crate::group::Group;

#[test]
fn a_handle_is_closed_while_its_work_runs() {
    let group = Group::new();
    // Once while another process is the coordinator, once as the coordinator.
    for serves in [false, true] {
        let key = format!("serves-{serves}");
        let [leader, joiner, other] = group.members();
        let first = if serves { &leader } else { &other };
        first.calls("first", "first");
        let token = leader.leads("a", &key);
        joiner.joins("b", &key, token);
        leader.tell("close 0");
        leader.hear("closed 0");
        let interrupted = joiner.hear("failed b");
        assert_eq!((interrupted[0].as_str(), interrupted[1].parse()), ("Interrupted", Ok(token)));
        // It holds its key still.
        other.tell(&format!("call c 0 {key} now 300"));
        let timed_out = other.hear("failed c").join(" ");
        assert!(timed_out.starts_with("TimedOut") && timed_out.contains("holds the key's lock"), "{timed_out}");
        other.tell(&format!("call d 0 {key} now"));
        leader.tell("call e 0 other now");
        assert_eq!(leader.hear("failed e")[0], "Closed");
        assert!(!other.has_told("start d"));
        leader.tell("finish a");
        assert_eq!(leader.hear_number("landed a"), token, "its own call keeps its value");
        assert!(other.hear_number("landed d") > token);
        assert_eq!(group.check().runs(&key), 2);
        for member in [leader, joiner, other] {
            member.kill();
        }
    }
    println!("joiners heard Interrupted, the work kept its key and its own value, the next caller led after it");
}

#[test]
fn a_close_waits_until_everything_is_acknowledged() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner] = group.members();
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    coordinator.freeze();
    leader.tell("finish a");
    assert_eq!(leader.hear_number("landed a"), token);
    leader.tell("close 0");
    // tidy: the story is that for a while nobody acknowledges.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!leader.has_told("closed 0"));
    coordinator.thaw();
    leader.hear("closed 0");
    assert_eq!(joiner.hear_number("landed b"), token);
    assert!(!group.key_locks().try_is_held(b"k").unwrap());
    group.check();
    println!("it returned after the coordinator went on, and the joiner had its value");
}

#[test]
fn a_close_with_a_limit_does_not_wait_for_a_frozen_coordinator() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner] = group.members();
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    coordinator.freeze();
    leader.tell("finish a");
    assert_eq!(leader.hear_number("landed a"), token);
    let locks = group.key_locks();
    assert!(locks.try_is_held(b"k").unwrap(), "until it is acknowledged");
    leader.tell("close 0 500");
    let unclosed = leader.hear("unclosed 0").join(" ");
    assert!(unclosed.contains(&format!("process {}", coordinator.pid())), "{unclosed}");
    // The process lives on, and has nothing more to do with the key.
    assert!(!locks.try_is_held(b"k").unwrap());
    coordinator.thaw();
    assert_eq!(joiner.hear_number("landed b"), token, "the landing was in the kernel");
    assert!(joiner.calls("c", "k") > token);
    group.check();
    println!("{unclosed}");
}

#[test]
fn a_process_that_ends_right_after_its_call_loses_nothing() {
    let group = Group::new();
    let first = group.coordinator();
    let [second, third] = group.members();
    let mut count = 0;
    // In a process that is not the coordinator, and in the one that is; with a short value, and with one that fills the sockets.
    for length in [0, 8 << 20] {
        for _ in 0..5 {
            let leader = group.member();
            end_right_after(&group, &leader, [&first, &second, &third], count, length);
            count += 1;
        }
    }
    for member in [first, second, third] {
        member.kill_idle();
    }
    for length in [0, 8 << 20] {
        for _ in 0..5 {
            let leader = group.coordinator();
            let joiners: [_; 3] = group.members();
            end_right_after(&group, &leader, joiners.each_ref(), count, length);
            joiners.iter().for_each(|joiner| joiner.kill_idle());
            count += 1;
        }
    }
    println!(
        "{count} times the process ended right after its call, half of them as the coordinator: all joiners got the value"
    );
}

fn end_right_after(
    group: &Group,
    leader: &crate::member::Member,
    joiners: [&crate::member::Member; 3],
    round: usize,
    length: usize,
) {
    let key = format!("k-{round}");
    leader.tell(&format!("last {round} 0 {key} hold:{length}"));
    let token = leader.hear_number(&format!("start {round}"));
    for joiner in joiners {
        joiner.joins(&format!("{round}"), &key, token);
    }
    leader.tell(&format!("finish {round}"));
    leader.ends();
    for joiner in joiners {
        assert_eq!(joiner.hear_number(&format!("landed {round}")), token);
    }
    assert_eq!(group.check().runs(&key), 1);
}

#[test]
fn a_call_begun_after_a_leader_returned_never_gets_its_value() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [one, other] = group.members();
    let mut last = 0;
    let mut joined = 0;
    // Each member calls as soon as the one before it has returned, and somebody else calls now and then.
    let members = [&one, &other, &coordinator];
    for round in 0..500 {
        let member = members[round % 3];
        let bystander = members[(round + 1) % 3];
        if round % 5 == 0 {
            bystander.tell(&format!("call b{round} 0 k now"));
        }
        member.tell(&format!("call {round} 0 k now"));
        let flight = member.hear(&format!("landed {round}"));
        let token: u64 = flight[0].parse().unwrap();
        // A flight that it joined was led by a call of the bystander, which had not returned when this call began.
        assert!(token > last, "round {round}: flight {token} had returned with or before {last}");
        joined += usize::from(flight[1] == "joined");
        if round % 5 == 0 {
            bystander.hear(&format!("landed b{round}"));
        }
        last = token;
    }
    group.check();
    println!(
        "500 calls, each begun after the one before it had returned: {joined} joined a bystander's flight, none an ended one"
    );
}
