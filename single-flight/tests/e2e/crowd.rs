//! A crowd that arrives at the same moment.

use std::fs::File;

use crate::group::Group;

const CROWD: usize = 64;
const ROUNDS: usize = 20;

#[test]
fn sixty_four_processes_meet_a_dead_socket() {
    let group = Group::new();
    let mut crowd = Vec::from(group.members::<CROWD>());
    let first = crowd[0].calls("first", "first");
    let mut epoch = (first >> 32) as u32;
    let mut terms = Vec::new();
    for round in 0..ROUNDS {
        // Nobody is under way, so that nobody takes over before all call.
        let pid = crowd[0].status().coordinator;
        let coordinator = crowd.iter().position(|member| member.pid() == pid).expect("the coordinator is one of us");
        crowd[coordinator].kill_idle();
        crowd[coordinator] = group.member();
        assert!(group.directory().join("flight.sock").exists(), "the dead socket");

        let gate = group.beside(&format!("gate-{round}"));
        let closed = File::create(&gate).unwrap();
        closed.lock().unwrap();
        for member in &crowd {
            member.tell(&format!("gate {} call {round} 0 k-{round} hold", gate.display()));
        }
        crowd.iter().for_each(|member| drop(member.hear("waiting")));
        closed.unlock().unwrap();

        let mut leader = None;
        for (at, member) in crowd.iter().enumerate() {
            let (start, joined) = (format!("start {round}"), format!("joined {round}"));
            let token = member.hear_any(&[&start, &joined])[0].parse::<u64>().unwrap();
            if member.heard().iter().any(|line| line.starts_with(&format!("{start} "))) {
                assert!(leader.is_none(), "round {round}: two leaders");
                leader = Some((at, token));
            }
        }
        let (at, token) = leader.expect("somebody leads");
        crowd[at].tell(&format!("finish {round}"));
        for member in &crowd {
            assert_eq!(member.hear_number(&format!("landed {round}")), token);
        }
        let of_term = (token >> 32) as u32;
        assert!(of_term > epoch, "a term after the one that was killed");
        terms.push(of_term - epoch);
        epoch = of_term;
        assert_eq!(group.check().runs(&format!("k-{round}")), 1, "round {round}");
    }
    println!("{ROUNDS} rounds of {CROWD} processes at a dead socket: one run each; terms per round {terms:?}");
}
