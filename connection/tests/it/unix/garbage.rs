//! Whatever a client sends, it costs only its own connection.

use std::net::Shutdown;
use std::time::Duration;

use flight_connection::{DisconnectReason, FrameError};
use tempfile::tempdir;

use super::raw::{Raw, aside, hello, wire};
use crate::party::{Party, end_of, options, say, text_frame, two};

#[tokio::test]
async fn garbage_before_the_handshake_closes_that_connection_only() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, to_server) = two(folder.path()).await;
    let bad: [&[u8]; 6] = [
        &[0xff; 4],                          // 4 GiB
        &[0, 0, 0, 0],                       // nothing, not even a line feed
        b"GET / HTTP/1.1\r\n\r\n",           // a length of a billion, by chance
        b"\0\0\0\x05hello",                  // no line feed
        b"\0\0\0\x03{}\n",                   // no version
        b"\0\0\0\x10{\"protocol\":\"1\"}\n", // a version that is no number
    ];
    for bytes in bad {
        let path = folder.path().to_owned();
        let ended = aside(move || {
            let mut raw = Raw::connect(&path);
            raw.send(bytes);
            // Perhaps a refusal in words, then the end.
            while raw.receive().is_some() {}
        });
        server.attend(ended).await;
    }
    say(&to_server, "undisturbed");
    assert_eq!(server.frame().await, text_frame("undisturbed"));
    say(&to_client, "so it is");
    assert_eq!(client.frame().await, text_frame("so it is"));
    server.assert_undisturbed();
    client.assert_undisturbed();
}

#[tokio::test]
async fn garbage_after_the_handshake_ends_the_connection_with_its_reason() {
    let folder = tempdir().unwrap();
    let mut server = Party::new(folder.path());
    server.elected().await;
    let path = folder.path().to_owned();
    let ended = aside(move || {
        let mut raw = Raw::connect(&path);
        raw.say_hello(&path);
        raw.receive().expect("a hello");
        raw.send(&wire(&text_frame("the last good one")));
        raw.send(&[0xff; 4]);
        while raw.receive().is_some() {}
    });
    let ((), id) = tokio::join!(ended, server.disconnected());
    assert!(server.passed.iter().any(|event| matches!(
        event,
        flight_connection::Event::Frame(from, frame) if *from == id && *frame == text_frame("the last good one")
    )));
    let Some(DisconnectReason::Framing(FrameError::TooLong { length: 0xffff_ffff, limit })) = end_of(&server, id)
    else {
        panic!("{:?}", server.passed)
    };
    assert_eq!(*limit, options().max_frame);
}

#[tokio::test]
async fn one_byte_at_a_time_is_slow_and_no_fault() {
    let folder = tempdir().unwrap();
    let mut server = Party::new(folder.path());
    server.elected().await;
    let path = folder.path().to_owned();
    let _raw = server
        .attend(aside(move || {
            let mut raw = Raw::connect(&path);
            let mut bytes = wire(&hello(&path).frame());
            bytes.extend(wire(&text_frame("in small pieces")));
            for byte in bytes {
                raw.send(&[byte]);
            }
            raw
        }))
        .await;
    server.supervisor.read_dry(None, 0);
    assert_eq!(server.frame().await, text_frame("in small pieces"));
}

#[tokio::test]
async fn a_hello_with_more_fields_than_we_know_is_a_hello() {
    let folder = tempdir().unwrap();
    let mut server = Party::new(folder.path());
    server.elected().await;
    let path = folder.path().to_owned();
    let answered = aside(move || {
        let mut raw = Raw::connect(&path);
        let mut frame = hello(&path).frame();
        let text = String::from_utf8(frame.header.to_vec()).unwrap();
        frame.header = text.replace("{\"protocol\"", "{\"colour\":[\"blue\"],\"protocol\"").into();
        raw.send(&wire(&frame));
        raw.receive().expect("a hello")
    });
    let (hello, accepted) = tokio::join!(answered, server.accepted());
    assert!(String::from_utf8_lossy(&hello.header).starts_with("{\"protocol\":1,"), "the version comes first");
    assert_eq!(accepted.peer().hello.software, "by hand");
}

#[tokio::test]
async fn ten_thousand_that_connect_and_leave_are_no_trouble() {
    let folder = tempdir().unwrap();
    let (mut server, _client, _, to_server) = two(folder.path()).await;
    let path = folder.path().to_owned();
    let all_left = aside(move || {
        for _ in 0..10_000 {
            drop(Raw::connect(&path));
        }
    });
    server.attend(all_left).await;
    say(&to_server, "still there");
    assert_eq!(server.frame().await, text_frame("still there"));
    server.assert_undisturbed();
}

#[tokio::test]
async fn a_half_closed_connection_is_over_after_what_it_said() {
    let folder = tempdir().unwrap();
    let mut server = Party::new(folder.path());
    server.elected().await;
    let path = folder.path().to_owned();
    let mut raw = server
        .attend(aside(move || {
            let mut raw = Raw::connect(&path);
            raw.say_hello(&path);
            raw.receive().expect("a hello");
            raw.send(&wire(&text_frame("that is all")));
            raw.stream.shutdown(Shutdown::Write).unwrap();
            raw
        }))
        .await;
    assert_eq!(server.frame().await, text_frame("that is all"));
    let id = server.disconnected().await;
    assert!(matches!(end_of(&server, id), Some(DisconnectReason::EndOfFile)));
    assert_eq!(raw.receive(), None, "and the other half is closed too");
}

#[tokio::test]
async fn a_client_that_says_nothing_is_closed_in_time() {
    let folder = tempdir().unwrap();
    let mut options = options();
    options.hello_timeout = Duration::from_millis(50);
    let mut server = Party::with(folder.path(), options);
    server.elected().await;
    let path = folder.path().to_owned();
    let nothing = server
        .attend(aside(move || {
            let mut raw = Raw::connect(&path);
            raw.send(b"\0\0");
            raw.receive()
        }))
        .await;
    assert_eq!(nothing, None);
    server.assert_undisturbed();
}

#[tokio::test]
async fn the_time_in_which_this_process_was_stopped_does_not_count() {
    let folder = tempdir().unwrap();
    let mut options = options();
    options.hello_timeout = Duration::from_millis(300);
    let mut server = Party::with(folder.path(), options);
    server.elected().await;
    let mut raw = Raw::connect(folder.path());
    server.supervisor.read_dry(None, 1);
    server.until(|event| matches!(event, flight_connection::Event::Dry(1)).then_some(())).await;
    // Its whole process stands still, as it does while it is stopped.
    // tidy: it stands for the time in which the process is stopped
    std::thread::sleep(Duration::from_millis(1_500));
    // One look, after which an impatient server would have closed.
    let look = tokio::time::timeout(Duration::from_millis(20), server.supervisor.next());
    assert!(look.await.is_err(), "there is nothing to tell");
    raw.say_hello(folder.path());
    server.accepted().await;
    assert!(raw.receive().is_some());
}
