//! What hands and crashes do to the files of the directory.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::group::Group;

#[test]
fn the_directory_is_removed_under_a_running_group() {
    go_on_in_another("removed", |directory| std::fs::remove_dir_all(directory).unwrap());
}

#[test]
fn the_directory_is_moved_away_under_a_running_group() {
    go_on_in_another("moved", |directory| {
        std::fs::rename(directory, directory.with_file_name("moved")).unwrap();
        // Somebody else makes a new one.
        std::fs::create_dir(directory).unwrap();
    });
}

fn go_on_in_another(how: &str, replace: fn(&Path)) {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner, idle] = group.members();
    idle.calls("before", "other");
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    replace(&group.directory());
    let replaced = Instant::now();
    assert_eq!(leader.hear_number("lost a"), token);
    let told = replaced.elapsed();
    assert!(told < Duration::from_secs(3), "it was told after {told:?}");
    assert_eq!(joiner.hear("failed b")[0], "Interrupted");
    // Whoever calls first makes it again, while the leader that lost is still at it.
    let mut last = token;
    for member in [&joiner, &idle, &coordinator, &leader, &group.member()] {
        let next = member.calls("c", "k");
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    leader.tell("finish a");
    assert_eq!(leader.hear("failed a")[0], "LeaseLost");
    assert_eq!(group.check().runs("k"), 6);
    println!(
        "{how}: the leader heard after {} ms that it lost; five processes went on in the new one",
        told.as_millis()
    );
}

#[test]
fn the_coordinators_lock_file_is_removed_by_hand() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let [leader, joiner] = group.members();
    let token = leader.leads("a", "k");
    joiner.joins("b", "k", token);
    let epoch = group.epoch();
    std::fs::remove_file(group.directory().join("flight.lock")).unwrap();
    let removed = Instant::now();
    // A lead is granted by a term that is alone only.
    let next = joiner.calls("c", "other");
    assert!(next >> 32 > u64::from(epoch), "a new term has a greater epoch");
    let taken = removed.elapsed();
    leader.tell("finish a");
    assert_eq!(leader.hear_number("landed a"), token);
    assert_eq!(joiner.hear_number("landed b"), token);
    assert!(coordinator.calls("d", "k") > token);
    assert_eq!(group.check().runs("k"), 2);
    println!("the next term began within {} ms, and the flight in progress landed", taken.as_millis());
}

#[test]
fn the_epoch_file_is_damaged() {
    let group = Group::new();
    let mut last = 0;
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("emptied", |file| std::fs::write(file, "").unwrap()),
        ("filled with NULs", |file| std::fs::write(file, [0; 64]).unwrap()),
        ("removed", |file| std::fs::remove_file(file).unwrap()),
        ("filled with words", |file| std::fs::write(file, "no number\n").unwrap()),
    ];
    for (what, damage) in damages {
        let coordinator = group.coordinator();
        let caller = group.member();
        caller.calls("a", "k");
        coordinator.kill_idle();
        damage(&group.directory().join("flight.epoch"));
        let next = caller.calls("b", "k");
        assert!(next >> 32 > last >> 32, "{what}: {next} after {last}");
        assert_eq!(u64::from(group.epoch()), next >> 32, "{what}: the file is whole again");
        // A process that has seen nothing counts on as well.
        let newcomer = group.member();
        caller.kill_idle();
        last = newcomer.calls("c", "k");
        assert!(last > next, "{what}");
        newcomer.kill_idle();
    }
    // Without either copy nothing is counted from a lower number.
    std::fs::write(group.directory().join("flight.epoch"), "").unwrap();
    std::fs::write(group.directory().join("flight.lock"), [0; 16]).unwrap();
    let caller = group.member();
    caller.tell("call d 0 k now");
    let refused = caller.hear("failed d").join(" ");
    assert!(refused.starts_with("Unavailable") && refused.contains("flight.epoch"), "{refused}");
    group.check();
    println!("with one copy damaged the tokens grew on; with both: {refused}");
}

#[test]
fn the_socket_is_removed_by_hand() {
    let group = Group::new();
    let coordinator = group.coordinator();
    let epoch = group.epoch();
    std::fs::remove_file(group.directory().join("flight.sock")).unwrap();
    let removed = Instant::now();
    let newcomer = group.member();
    let token = newcomer.calls("a", "k");
    assert_eq!(token >> 32, u64::from(epoch), "the same term");
    let found = removed.elapsed();
    assert!(found < Duration::from_secs(5), "{found:?}");
    assert_eq!(newcomer.status().coordinator, coordinator.pid());
    group.check();
    println!("a newcomer found the coordinator after {} ms", found.as_millis());
}
