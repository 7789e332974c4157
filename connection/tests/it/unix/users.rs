//! Another user, who is not root, is refused by both sides. Only root can try that: under other users these tests pass without a look.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flight_connection::{AttemptError, Event};
use tempfile::tempdir;

use super::process::Process;
use crate::party::Party;

const NOBODY: u32 = 65_534;

/// Lets everybody in, so that only our own check is in the way.
fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[tokio::test]
async fn a_client_of_another_user_is_refused_and_told_why() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempdir().unwrap();
    open_to_all(folder.path());
    let mut server = Party::new(folder.path());
    server.elected().await;
    open_to_all(&folder.path().join("flight.sock"));
    let mut other = Process::start_as_user(folder.path(), NOBODY);
    let refused = server.attend(tokio::task::spawn_blocking(move || other.until("failed"))).await.unwrap();
    assert!(refused.starts_with("fatal=true"), "{refused}");
    assert!(refused.contains("another user"), "{refused}");
    server.assert_undisturbed();
}

#[tokio::test]
async fn root_does_not_trust_a_server_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempdir().unwrap();
    open_to_all(folder.path());
    let mut other = Process::start_as_user(folder.path(), NOBODY);
    other.until("elected");
    let mut client = Party::new(folder.path());
    let refused = client.until(|event| match event {
        Event::Failed(AttemptError::OtherUser { uid, .. }) => Some(*uid),
        _ => None,
    });
    assert_eq!(refused.await, Some(NOBODY));
    assert!(!other.drain().iter().any(|line| line.starts_with("accepted")), "it was told nothing");
}

#[tokio::test]
async fn two_processes_of_one_user_are_fine() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempdir().unwrap();
    open_to_all(folder.path());
    let mut server = Process::start_as_user(folder.path(), NOBODY);
    server.until("elected");
    let mut client = Process::start_as_user(folder.path(), NOBODY);
    client.until("connected");
    client.tell("say hello");
    assert!(server.until("frame").contains("hello"));
}
