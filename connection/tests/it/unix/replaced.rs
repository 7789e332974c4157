//! Files that nobody may touch were touched.

use std::time::Duration;

use flight_connection::{DeposedReason, DisconnectReason, Event};
use tempfile::tempdir;

use crate::party::{end_of, meet, say, text_frame, two};

fn deposed(event: &Event) -> Option<bool> {
    match event {
        Event::Deposed(reason) => Some(matches!(reason, DeposedReason::LockReplaced)),
        _ => None,
    }
}

#[tokio::test]
async fn who_loses_its_lock_file_stops_serving_and_a_greater_term_begins() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, to_server) = two(folder.path()).await;
    let term = server.passed.iter().find_map(|event| match event {
        Event::Elected(term) => Some(term.clone()),
        _ => None,
    });
    let term = term.expect("it was elected");
    std::fs::remove_file(folder.path().join("flight.lock")).unwrap();
    assert!(!term.is_current().unwrap(), "it is known before the next grant");
    assert!(!server.supervisor.term_is_current().unwrap());

    let last = client.attend(server.until(deposed)).await;
    assert!(last);
    assert!(matches!(end_of(&server, to_client.id()), Some(DisconnectReason::TermEnded)), "told before");
    assert_eq!(client.disconnected().await, to_server.id());
    let is_there = |event: &Event| match event {
        Event::Elected(term) => Some((true, term.epoch())),
        Event::Connected(connection) => Some((false, connection.peer().hello.epoch)),
        _ => None,
    };
    let (first, second) = meet(&mut server, is_there, &mut client, is_there).await;
    assert!(first.0 != second.0, "one serves, the other is connected to it");
    assert_eq!(first.1, second.1);
    assert!(first.1 > term.epoch());
    assert!(!term.is_current().unwrap(), "the old term stays over");
}

#[tokio::test]
async fn everybody_follows_the_path_to_a_new_directory() {
    let base = tempdir().unwrap();
    let folder = base.path().join("flights");
    let (mut server, mut client, _, _) = two(&folder).await;
    let epoch = server.passed.iter().find_map(|event| match event {
        Event::Elected(term) => Some(term.epoch()),
        _ => None,
    });
    std::fs::remove_dir_all(&folder).unwrap();

    assert!(client.attend(server.until(deposed)).await);
    let is_there = || {
        let mut followed = false;
        move |event: &Event| match event {
            Event::DirectoryReplaced(directory) => {
                followed = directory.path().ends_with("flights");
                None
            }
            Event::Elected(term) if followed => Some((None, term.epoch())),
            Event::Connected(connection) if followed => Some((Some(connection.clone()), connection.peer().hello.epoch)),
            _ => None,
        }
    };
    let (first, second) = meet(&mut server, is_there(), &mut client, is_there()).await;
    assert!(first.1 > epoch.unwrap(), "the epoch that they had seen is passed in a directory that knows none");
    let (connection, receiver) = match (first.0, second.0) {
        (Some(connection), None) => (connection, &mut client),
        (None, Some(connection)) => (connection, &mut server),
        other => panic!("one serves, the other is connected to it: {other:?}"),
    };
    say(&connection, "in the new one");
    assert_eq!(receiver.frame().await, text_frame("in the new one"));
}

#[tokio::test]
async fn what_only_looks_like_a_change_is_none() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, _, _) = two(folder.path()).await;
    for name in ["flight.lock", "flight.epoch", "flight.sock"] {
        let path = folder.path().join(name);
        std::fs::hard_link(&path, folder.path().join(format!("{name}.link"))).unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o640);
        std::fs::set_permissions(&path, permissions).unwrap();
    }
    // Over two checks.
    client.attend(server.stay_undisturbed(Duration::from_millis(2_200))).await;
    client.assert_undisturbed();
}

#[tokio::test]
async fn resigning_hands_the_term_over() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, _) = two(folder.path()).await;
    server.supervisor.want(false);
    server.supervisor.resign();
    let resigned = |event: &Event| matches!(event, Event::Deposed(DeposedReason::Resigned)).then_some(());
    server.until(resigned).await;
    assert!(matches!(end_of(&server, to_client.id()), Some(DisconnectReason::TermEnded)));
    server.attend(client.elected()).await;
}

#[tokio::test]
async fn a_dropped_supervisor_lets_go_although_others_hold_its_term() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, _) = two(folder.path()).await;
    let term = server.passed.iter().find_map(|event| match event {
        Event::Elected(term) => Some(term.clone()),
        _ => None,
    });
    let term = term.expect("it was elected");
    assert!(term.is_current().unwrap());
    server.stay_undisturbed(Duration::ZERO).await;
    drop(server);
    assert!(!term.is_current().unwrap());
    client.disconnected().await;
    assert!(client.elected().await.epoch() > term.epoch());
    assert_eq!(to_client.flush().backlog, 0, "what is left of it does nothing");
}
