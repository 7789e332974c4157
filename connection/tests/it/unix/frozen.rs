//! Somebody holds the term and does not answer. It is waited for, and said so; nobody is elected.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use flight_connection::{Epoch, Event, Hello, Phase};
use flight_key_lock::LockFile;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Signal;
use tempfile::tempdir;

use super::process::Process;
use super::raw::{aside, wire};
use crate::party::{Party, local, meet, say, text_frame};

fn not_answering(event: &Event) -> Option<Option<u32>> {
    match event {
        Event::Phase(Phase::NotAnswering { pid, .. }) => Some(*pid),
        _ => None,
    }
}

#[tokio::test]
async fn a_stopped_server_keeps_its_term_and_goes_on_when_it_can() {
    let folder = tempdir().unwrap();
    let mut server = Process::start(folder.path());
    let epoch: u32 = server.until("elected").parse().unwrap();
    let mut client = Party::new(folder.path());
    let to_server = client.connected().await;
    server.until("accepted");

    server.stop();
    say(&to_server, "said to a stopped process");
    let mut newcomer = Party::new(folder.path());
    assert_eq!(newcomer.until(not_answering).await, Some(server.id()), "and it is named");
    // Long enough for an election, if time elected anybody.
    newcomer.attend(client.stay_undisturbed(Duration::from_millis(1_200))).await;
    let stored = std::fs::read_to_string(folder.path().join("flight.epoch")).unwrap();
    assert_eq!(stored, format!("{epoch}\n"));

    server.signal(Signal::CONT);
    let connection = newcomer.connected().await;
    assert_eq!(connection.peer().hello.epoch, Epoch::new(epoch));
    assert!(server.until("frame").contains("said to a stopped process"));
    say(&connection, "and later");
    assert!(server.until("frame").contains("and later"));
    client.assert_undisturbed();
    newcomer.assert_undisturbed();
    server.drain();
    assert!(!server.passed.iter().any(|line| line.starts_with("disconnected") || line.starts_with("deposed")));
}

#[tokio::test]
async fn a_full_queue_means_alive_even_when_the_lock_is_free() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("flight.sock");
    // The smallest queue.
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = UnixListener::from(socket);
    let mut queue = Vec::new();
    loop {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        match rustix::net::connect(&socket, &SocketAddrUnix::new(&path).unwrap()) {
            Ok(()) => queue.push(socket),
            Err(error) if error == rustix::io::Errno::AGAIN => break,
            Err(error) => panic!("{error}"),
        }
    }

    let mut client = Party::new(folder.path());
    assert_eq!(client.until(not_answering).await, None, "nobody knows whose queue it is");
    assert!(!folder.path().join("flight.epoch").exists(), "nobody campaigned");

    // It begins to accept. Those in the queue before us have gone.
    drop(queue);
    let ours = Hello::new(1, "slow", Epoch::new(5), local(folder.path()).identity().to_string());
    let accepting = aside(move || {
        loop {
            let (stream, _) = listener.accept().unwrap();
            if let Ok(()) = answer(&stream, &ours) {
                return stream;
            }
        }
    });
    let (connection, _stream) = tokio::join!(client.connected(), accepting);
    assert_eq!(connection.peer().hello.software, "slow");
    client.assert_undisturbed();
}

/// Reads a hello and answers.
fn answer(mut stream: &UnixStream, ours: &Hello) -> io::Result<()> {
    use io::{Read, Write};
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut hello = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut hello)?;
    stream.write_all(&wire(&ours.frame()))
}

#[tokio::test]
async fn a_lock_without_a_socket_is_waited_for_and_named() {
    for left_over in [false, true] {
        let folder = tempdir().unwrap();
        if left_over {
            // Of a process that was killed.
            drop(UnixListener::bind(folder.path().join("flight.sock")).unwrap());
        }
        let held = LockFile::try_lock(&local(folder.path()), "flight.lock").unwrap().expect("it is free");
        let mut clients = [Party::new(folder.path()), Party::new(folder.path())];
        for client in &mut clients {
            let without =
                |event: &Event| matches!(event, Event::Phase(Phase::LockHeldWithoutSocket { .. })).then_some(());
            client.until(without).await;
            client.assert_undisturbed();
        }
        held.unlock().unwrap();
        let [one, other] = &mut clients;
        let is_there = |event: &Event| match event {
            Event::Elected(_) => Some(true),
            Event::Connected(_) => Some(false),
            _ => None,
        };
        let (first, second) = meet(one, is_there, other, is_there).await;
        assert!(first != second, "one serves, and the other is connected to it");
        one.assert_undisturbed();
        other.assert_undisturbed();
    }
}

#[tokio::test]
async fn an_answer_to_a_stopped_client_waits_for_it() {
    let folder = tempdir().unwrap();
    let mut server = Party::new(folder.path());
    server.elected().await;
    let mut client = Process::start(folder.path());
    let to_client = server.accepted().await;
    client.until("connected");
    client.stop();
    say(&to_client, "for later");
    server.stay_undisturbed(Duration::from_millis(1_200)).await;
    client.signal(Signal::CONT);
    assert_eq!(client.until("frame"), String::from_utf8_lossy(&text_frame("for later").header));
}
