//! Reading dry gives what the kernel has, whether tokio has noticed it or not.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use flight_connection::{Connection, Event};
use tempfile::{TempDir, tempdir};

use super::raw::{Raw, aside, wire};
use crate::party::{Party, text_frame};

/// What comes without a look of the runtime at its sockets.
fn at_once(party: &mut Party) -> Option<Event> {
    match pin!(party.supervisor.next()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => Some(event),
        Poll::Pending => None,
    }
}

async fn served() -> (TempDir, Party, Raw, Connection) {
    let folder = tempdir().unwrap();
    let mut server = Party::new(folder.path());
    server.elected().await;
    let path = folder.path().to_owned();
    let raw = aside(move || {
        let mut raw = Raw::connect(&path);
        raw.say_hello(&path);
        raw.receive().expect("a hello");
        raw
    });
    let raw = server.attend(raw).await;
    let connection = server.accepted().await;
    while at_once(&mut server).is_some() {}
    (folder, server, raw, connection)
}

#[tokio::test]
async fn what_was_sent_a_moment_ago_comes_before_the_ticket() {
    let (_folder, mut server, mut raw, connection) = served().await;
    raw.send(&wire(&text_frame("one")));
    raw.send(&wire(&text_frame("two")));
    assert!(at_once(&mut server).is_none(), "tokio has not noticed");
    server.supervisor.read_dry(Some(connection.id()), 7);
    for text in ["one", "two"] {
        assert!(matches!(at_once(&mut server), Some(Event::Frame(_, frame)) if frame == text_frame(text)));
    }
    assert!(matches!(at_once(&mut server), Some(Event::Dry(7))));
    // And nothing was lost for later.
    raw.send(&wire(&text_frame("three")));
    assert_eq!(server.frame().await, text_frame("three"));
}

#[tokio::test]
async fn the_end_of_a_peer_comes_before_the_ticket_too() {
    let (_folder, mut server, mut raw, connection) = served().await;
    raw.send(&wire(&text_frame("last")));
    drop(raw);
    server.supervisor.read_dry(None, 8);
    assert!(matches!(at_once(&mut server), Some(Event::Frame(_, frame)) if frame == text_frame("last")));
    assert!(matches!(at_once(&mut server), Some(Event::Disconnected(id, _)) if id == connection.id()));
    assert!(matches!(at_once(&mut server), Some(Event::Dry(8))));
    server.supervisor.read_dry(Some(connection.id()), 9);
    assert!(matches!(at_once(&mut server), Some(Event::Dry(9))), "it has ended, and everything was told");
}

#[tokio::test]
async fn who_waits_to_be_accepted_is() {
    let (folder, mut server, _raw, _) = served().await;
    let mut newcomer = Raw::connect(folder.path());
    newcomer.say_hello(folder.path());
    server.supervisor.read_dry(None, 10);
    assert!(matches!(at_once(&mut server), Some(Event::Accepted(_))));
    assert!(matches!(at_once(&mut server), Some(Event::Dry(10))));
    assert!(newcomer.receive().is_some(), "it was answered");
}

#[tokio::test]
async fn more_than_a_chunk_is_read_and_a_half_frame_waits() {
    let (_folder, mut server, mut raw, connection) = served().await;
    let long = wire(&flight_connection::Frame::new("{}", vec![3; 120_000]));
    raw.send(&long);
    raw.send(&long[..50_000]);
    server.supervisor.read_dry(Some(connection.id()), 11);
    assert!(matches!(at_once(&mut server), Some(Event::Frame(_, frame)) if frame.payload.len() == 120_000));
    assert!(matches!(at_once(&mut server), Some(Event::Dry(11))));
    raw.send(&long[50_000..]);
    server.supervisor.read_dry(Some(connection.id()), 12);
    assert!(matches!(at_once(&mut server), Some(Event::Frame(_, frame)) if frame.payload.len() == 120_000));
    assert!(matches!(at_once(&mut server), Some(Event::Dry(12))));
}
