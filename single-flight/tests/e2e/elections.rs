//! Coordinators that are killed, one after the other.

use std::time::{Duration, Instant};

use crate::group::Group;

const ELECTIONS: usize = 200;

#[test]
fn two_hundred_coordinators_are_killed() {
    let group = Group::new();
    let mut members = Vec::from(group.members::<4>());
    let mut epoch = members[0].calls("first", "first") >> 32;
    let mut times: Vec<Duration> = Vec::with_capacity(ELECTIONS);
    for round in 0..ELECTIONS {
        let pid = members[0].status().coordinator;
        let at = members.iter().position(|member| member.pid() == pid).expect("the coordinator is one of us");
        let coordinator = members.remove(at);
        coordinator.kill_idle();
        let killed = Instant::now();
        // All survivors call, each its own key, so that every one of them runs.
        for (number, member) in members.iter().enumerate() {
            member.tell(&format!("call {round} 0 own-{number} now"));
        }
        let landed = format!("landed {round}");
        let first = members[round % members.len()].hear_number(&landed);
        times.push(killed.elapsed());
        for (number, member) in members.iter().enumerate().filter(|(number, _)| *number != round % members.len()) {
            let token = member.hear_number(&landed);
            assert_eq!(token >> 32, first >> 32, "round {round}: process {number} was in another term");
        }
        assert!(first >> 32 > epoch, "round {round}: epoch {} after {epoch}", first >> 32);
        epoch = first >> 32;
        members.push(group.member());
        // So that it is connected, and its status knows the coordinator.
        members.last().unwrap().calls("joins", "joins");
    }
    group.check();
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "{ELECTIONS} elections by SIGKILL: from the kill to the next completed call median {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, \
         longest {:.2} ms",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}
