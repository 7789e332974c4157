//! Both sides say who they are before anything else.

use flight_connection::{AttemptError, Epoch, Event, Frame, FrameError, HandshakeError, Phase};
use tempfile::tempdir;

use super::raw::{Raw, aside, hello, wire};
use crate::party::{Party, options, say, text_frame, two};

#[tokio::test]
async fn both_know_each_other_and_talk() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, to_server) = two(folder.path()).await;

    let us = std::process::id();
    for connection in [&to_server, &to_client] {
        assert_eq!(connection.peer().pid, Some(us));
        assert_eq!(connection.peer().hello.pid, us);
        assert_eq!(connection.peer().hello.software, "test 1.0");
        assert_eq!(connection.peer().hello.protocol, 1);
    }
    let Phase::Serving { epoch } = server.supervisor.phase() else { panic!("it serves") };
    assert_eq!(to_server.peer().hello.epoch, epoch);

    let [ours, theirs] = [&to_client, &to_server].map(|connection| connection.peer().hello.instance);
    assert_ne!(ours, theirs, "the process is the same, the parties are two");

    say(&to_server, "a question");
    assert_eq!(server.frame().await, text_frame("a question"));
    let answer = Frame::new("{}", vec![5; 300_000]);
    to_client.queue(&answer).unwrap();
    to_client.flush();
    assert_eq!(server.attend(client.frame()).await, answer);
    assert_eq!(client.supervisor.phase(), Phase::Connected { pid: Some(us), epoch });
    client.assert_undisturbed();
    server.assert_undisturbed();
}

#[tokio::test]
async fn other_versions_are_told_apart_and_the_server_goes_on() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, to_server) = two(folder.path()).await;
    let mut newer = options();
    (newer.protocol, newer.software) = (2, "test 2.0".to_owned());
    let mut stranger = Party::with(folder.path(), newer);

    let failed = server.attend(stranger.until(|event| match event {
        Event::Failed(AttemptError::Handshake { source: HandshakeError::ProtocolVersion(versions), .. }) => {
            Some(versions.clone())
        }
        _ => None,
    }));
    let versions = failed.await;
    assert_eq!((versions.ours, versions.theirs, &*versions.software), (2, 1, "test 1.0"));
    let Some(Event::Failed(error)) = stranger.passed.last() else { panic!("it was the last") };
    assert!(error.is_fatal());
    assert!(error.to_string().contains("flight.sock"), "{error}");

    say(&to_server, "still here");
    assert_eq!(server.frame().await, text_frame("still here"));
    say(&to_client, "so am I");
    assert_eq!(client.frame().await, text_frame("so am I"));
    server.assert_undisturbed();
    client.assert_undisturbed();
}

#[tokio::test]
async fn the_epoch_that_a_client_has_seen_is_passed_before_it_is_accepted() {
    let (elsewhere, folder) = (tempdir().unwrap(), tempdir().unwrap());
    let mut server = Party::new(folder.path());
    let term = server.elected().await;
    let first = term.epoch();

    // It meets a directory with a greater epoch, and then this one.
    let seen = Epoch::new(first.get() + 1_000);
    std::fs::write(elsewhere.path().join("flight.epoch"), format!("{}\n", seen.get() - 1)).unwrap();
    let mut client = Party::new(elsewhere.path());
    assert_eq!(client.elected().await.epoch(), seen);
    std::fs::rename(elsewhere.path(), elsewhere.path().with_extension("away")).unwrap();
    std::os::unix::fs::symlink(folder.path(), elsewhere.path()).unwrap();

    let (to_server, accepted) = tokio::join!(client.connected(), server.accepted());
    let raised = Epoch::new(seen.get() + 1);
    assert_eq!(to_server.peer().hello.epoch, raised);
    assert_eq!(accepted.peer().hello.epoch, seen);
    assert_eq!(term.epoch(), raised);
    assert!(term.is_current().unwrap());
    let stored = std::fs::read_to_string(folder.path().join("flight.epoch")).unwrap();
    assert_eq!(stored, format!("{raised}\n"));
    let order: Vec<_> = server
        .passed
        .iter()
        .filter_map(|event| match event {
            Event::EpochRaised(epoch) => Some(Some(*epoch)),
            Event::Accepted(_) => Some(None),
            _ => None,
        })
        .collect();
    assert_eq!(order, [Some(raised), None], "durable before the client is there");

    std::fs::remove_file(elsewhere.path()).unwrap();
    std::fs::rename(elsewhere.path().with_extension("away"), elsewhere.path()).unwrap();
}

#[tokio::test]
async fn a_party_is_known_again_by_its_instance() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, _) = two(folder.path()).await;
    let before = to_client.peer().hello.instance;
    to_client.close();
    let (_, again) = tokio::join!(client.connected(), server.accepted());
    assert_ne!(again.id(), to_client.id());
    assert_eq!(again.peer().hello.instance, before);
}

#[tokio::test]
async fn of_two_limits_on_frames_the_lower_one_counts() {
    let folder = tempdir().unwrap();
    let mut server = Party::new(folder.path());
    server.elected().await;
    let mut low = options();
    low.max_frame = 100;
    let mut client = Party::with(folder.path(), low);
    let (to_server, to_client) = tokio::join!(client.connected(), server.accepted());
    for connection in [to_server, to_client] {
        let refused = connection.queue(&Frame::new("{}", vec![0; 98]));
        assert_eq!(refused, Err(FrameError::TooLong { length: 101, limit: 100 }));
        connection.queue(&Frame::new("{}", vec![0; 97])).unwrap();
        connection.flush();
    }
    let (there, back) = tokio::join!(server.frame(), client.frame());
    assert_eq!((there.length(), back.length()), (100, 100));
}

#[tokio::test]
async fn an_epoch_that_leaves_none_after_it_is_not_believed() {
    let folder = tempdir().unwrap();
    let (mut server, _client, _, _) = two(folder.path()).await;
    let Phase::Serving { epoch } = server.supervisor.phase() else { panic!("it serves") };
    let path = folder.path().to_owned();
    let answer = aside(move || {
        let mut raw = Raw::connect(&path);
        let mut boastful = hello(&path);
        boastful.epoch = Epoch::MAX;
        raw.send(&wire(&boastful.frame()));
        let answer = raw.receive().expect("an answer");
        assert_eq!(raw.receive(), None, "and the end");
        answer
    });
    let answer = server.attend(answer).await;
    let words = String::from_utf8(answer.header.to_vec()).unwrap();
    assert!(words.contains("\"refusal\":") && words.contains(&Epoch::MAX.to_string()), "{words}");
    assert_eq!(server.supervisor.phase(), Phase::Serving { epoch });
    server.assert_undisturbed();
}
