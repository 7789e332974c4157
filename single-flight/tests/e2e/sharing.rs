//! Callers that share.

use crate::group::Group;

#[test]
fn eight_processes_call_one_key_fifty_times() {
    let group = Group::new();
    let members: [_; 8] = group.members();
    members.iter().for_each(|member| member.tell("loop a 50 k"));
    members.iter().for_each(|member| drop(member.hear("looped a")));
    let calls: Vec<String> =
        members.iter().flat_map(|member| member.heard()).filter(|line| line.starts_with("landed a ")).collect();
    assert_eq!(calls.len(), 8 * 50, "every call has a value");
    let joined = calls.iter().filter(|line| line.contains(" joined ")).count();
    let flights = group.check();
    assert_eq!(flights.runs("k"), calls.len() - joined, "a run for each leader, and none for a joiner");
    println!("400 calls of 8 processes: {} runs by {} processes", flights.runs("k"), flights.leaders("k"));
}

#[test]
fn handles_of_one_process_share_by_directory() {
    let group = Group::new();
    let (coordinator, member) = (group.coordinator(), group.member());
    let elsewhere = group.beside("elsewhere");
    // The same directory by another path is the same directory.
    member.tell(&format!("open 1 {}/.", group.directory().display()));
    member.tell(&format!("open 2 {}", elsewhere.display()));
    let token = member.leads("a", "k");
    member.tell("call b 1 k now");
    assert_eq!(member.hear_number("joined b"), token);
    coordinator.joins("c", "k", token);
    // Another directory is another world, whose journal would be another one: so another key.
    member.tell("call d 2 l now");
    let other = member.hear("landed d");
    assert_eq!(other[1], "led");
    // A handle's end is its own.
    member.tell("close 1");
    member.hear("closed 1");
    assert!(member.hear("failed b")[0] == "Closed");
    member.tell("finish a");
    assert_eq!(member.hear_number("landed a"), token);
    assert_eq!(coordinator.hear_number("landed c"), token);
    assert_eq!(group.check().runs("k"), 1);
    println!("two handles on one directory and a second process shared one run; a third handle has another directory");
}
