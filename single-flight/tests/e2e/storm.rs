//! Many things at once, by chance: the same ones for the same seed, although not at the same moments.

use crate::group::Group;
use crate::inside::Chance;

/// How many processes call at once.
const MEMBERS: usize = 6;

#[test]
fn a_storm_breaks_no_promise() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = number("FLIGHT_E2E_SEED").unwrap_or(20_261);
    let blows = number("FLIGHT_E2E_BLOWS").unwrap_or(200);
    println!("seed {seed}, {blows} blows; FLIGHT_E2E_SEED and FLIGHT_E2E_BLOWS change them");
    let group = Group::new();
    let mut chance = Chance(seed);
    let start = |chance: &mut Chance| {
        let member = group.member();
        member.tell(&format!("storm s 100000000 {}", chance.below(u64::MAX - 1) + 1));
        member
    };
    let mut members: Vec<_> = (0..MEMBERS).map(|_| start(&mut chance)).collect();
    let (mut killed, mut frozen, mut removed) = (0, 0, 0);
    for _ in 0..blows {
        let at = usize::try_from(chance.below(MEMBERS as u64)).unwrap();
        match chance.below(10) {
            0..4 => {
                members[at].kill();
                killed += 1;
                members[at] = start(&mut chance);
            }
            4..8 => {
                let other = (at + 1) % MEMBERS;
                let both = chance.below(3) == 0;
                members[at].freeze();
                if both {
                    members[other].freeze();
                }
                // tidy: the story is that for a while it does nothing.
                std::thread::sleep(chance.micros(40_000));
                members[at].thaw();
                if both {
                    members[other].thaw();
                }
                frozen += 1;
            }
            8 => {
                // By hand, or a sweeper of temporary files. The key locks are another matter: who removes those ends the exclusion.
                let name = ["flight.sock", "flight.lock"][usize::try_from(chance.below(2)).unwrap()];
                removed += usize::from(std::fs::remove_file(group.directory().join(name)).is_ok());
            }
            // tidy: the story is that for a while nothing happens to them.
            _ => std::thread::sleep(chance.micros(20_000)),
        }
    }
    // Everybody still gets along: each has a value of a call that began after the last blow.
    for member in &members {
        member.heard();
        member.tell("call last 0 last now");
        member.hear("landed last");
    }
    // From here on a work that began has its end in the journal, or its process was killed.
    members.iter().for_each(crate::member::Member::kill);
    let mut failed = std::collections::BTreeMap::new();
    for line in group.members_heard() {
        let mut words = line.split(' ');
        if words.next() == Some("failed") {
            *failed.entry(words.nth(1).unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    let flights = group.check();
    let runs: Vec<usize> = ["k0", "k1", "k2"].iter().map(|key| flights.runs(key)).collect();
    println!(
        "{killed} killed, {frozen} frozen, {removed} files removed; works of three keys: {runs:?}; calls that failed: {failed:?}"
    );
    let expected = |name: &String| ["Interrupted", "TimedOut"].contains(&name.as_str());
    assert!(failed.keys().all(expected), "nothing else may fail: {failed:?}");
}
