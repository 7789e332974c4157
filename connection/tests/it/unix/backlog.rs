//! A peer that does not read, and an owner that does not.

use std::io::Write;

use flight_connection::{Connection, DisconnectReason, Event, Frame, Written};
use tempfile::tempdir;

use super::raw::{Raw, aside, wire};
use crate::party::{Party, end_of, options, say, text_frame, two};

#[tokio::test]
async fn what_a_slow_reader_leaves_waits_and_each_progress_is_told() {
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
    let (mut raw, slow) = tokio::join!(raw, server.accepted());

    let frame = Frame::new("{}", vec![9; 8 << 20]);
    let position = slow.queue(&frame).unwrap();
    let first = slow.flush();
    assert!(first.position > 0 && first.backlog > 0, "{first:?}");
    assert_eq!(first.position + first.backlog as u64, position);

    // Another client does not notice.
    let mut other = Party::new(folder.path());
    let (to_server, _) = tokio::join!(other.connected(), server.accepted());
    say(&to_server, "me too");
    assert_eq!(server.frame().await, text_frame("me too"));
    assert_eq!(slow.written(), first, "nothing was read meanwhile");

    let received = server.attend(aside(move || (raw.receive(), raw)));
    let (received, _raw) = received.await;
    assert_eq!(received, Some(frame));
    server.until(|event| is_written(event, position).then_some(())).await;
    let told: Vec<Written> = server
        .passed
        .iter()
        .filter_map(|event| match event {
            Event::Written(id, written) if *id == slow.id() => Some(*written),
            _ => None,
        })
        .collect();
    assert!(told.len() > 1, "progress is told while it is made: {told:?}");
    assert!(told.is_sorted_by(|one, other| one.position < other.position), "{told:?}");
    assert_eq!(told.last(), Some(&Written { position, backlog: 0 }));
}

fn is_written(event: &Event, position: u64) -> bool {
    matches!(event, Event::Written(_, written) if written.position == position)
}

#[tokio::test]
async fn who_leaves_too_much_loses_its_connection_and_nobody_else_does() {
    let folder = tempdir().unwrap();
    let mut options = options();
    options.max_backlog = 1 << 20;
    let mut server = Party::with(folder.path(), options);
    server.elected().await;
    let path = folder.path().to_owned();
    let raw = aside(move || {
        let mut raw = Raw::connect(&path);
        raw.say_hello(&path);
        raw.receive().expect("a hello");
        raw
    });
    let (mut raw, stuck) = tokio::join!(raw, server.accepted());
    raw.send(&wire(&text_frame("I never read")));
    let long = Frame::new("{}", vec![0; 700_000]);
    stuck.queue(&long).unwrap();
    stuck.flush();
    stuck.queue(&long).unwrap();
    stuck.flush();
    assert_eq!(server.frame().await, text_frame("I never read"));
    let id = server.disconnected().await;
    assert_eq!(id, stuck.id());
    assert!(matches!(end_of(&server, id), Some(DisconnectReason::Backlog { limit, .. }) if *limit == 1 << 20));
    assert_eq!(stuck.flush().backlog, 0, "nothing is kept for it");
}

#[tokio::test]
async fn an_owner_that_is_slow_is_not_flooded() {
    const FRAMES: usize = 5_000;
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
    let (mut raw, _) = tokio::join!(raw, server.accepted());
    raw.stream.set_nonblocking(true).unwrap();
    let flood: Vec<u8> = (0..FRAMES).flat_map(|number| wire(&Frame::new(number.to_string(), vec![0; 1_000]))).collect();
    let (mut sent, mut most) = (0, 0);
    for taken in 0..FRAMES {
        while let Ok(count) = raw.stream.write(&flood[sent..])
            && count > 0
        {
            sent += count;
        }
        most = most.max(sent - taken * 1_000);
        assert_eq!(server.frame().await.header, taken.to_string());
        server.passed.clear();
    }
    assert!(most < 600 << 10, "{most} bytes were on the way: more than a chunk and the kernel's buffer");
}

#[tokio::test]
async fn frames_of_many_threads_stay_whole_and_each_threads_in_order() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, _to_client, to_server) = two(folder.path()).await;
    const EACH: usize = 200;
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let connection = to_server.clone();
            std::thread::spawn(move || {
                for number in 0..EACH {
                    let length = if number % 3 == 0 { 30_000 } else { number };
                    let frame = Frame::new(format!("{{\"thread\":{thread},\"n\":{number}}}"), vec![thread; length]);
                    connection.queue(&frame).unwrap();
                    connection.flush();
                }
            })
        })
        .collect();
    let mut next = [0; 4];
    for _ in 0..4 * EACH {
        let frame = client.attend(server.frame()).await;
        let header = String::from_utf8(frame.header.to_vec()).unwrap();
        let thread: u8 = header["{\"thread\":".len()..].split(',').next().unwrap().parse().unwrap();
        let n = next[usize::from(thread)];
        assert_eq!(header, format!("{{\"thread\":{thread},\"n\":{n}}}"));
        assert!(frame.payload.iter().all(|byte| *byte == thread));
        next[usize::from(thread)] += 1;
    }
    for thread in threads {
        thread.join().unwrap();
    }
    client.assert_undisturbed();
}

#[tokio::test]
async fn the_longest_frame_passes_in_both_directions() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, to_server) = two(folder.path()).await;
    send_longest(&mut client, &to_server, &mut server).await;
    send_longest(&mut server, &to_client, &mut client).await;
    server.assert_undisturbed();
    client.assert_undisturbed();
}

async fn send_longest(from: &mut Party, connection: &Connection, to: &mut Party) {
    let longest = Frame::new("{}", vec![1; options().max_frame - 3]);
    connection.queue(&longest).unwrap();
    connection.flush();
    assert!(from.attend(to.frame()).await == longest);
    let refused = connection.queue(&Frame::new("{}", vec![1; options().max_frame - 2]));
    assert!(refused.is_err(), "one byte more is refused");
}

#[tokio::test]
async fn a_close_from_another_thread_is_told_after_what_was_received() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, to_server) = two(folder.path()).await;
    say(&to_server, "before the close");
    std::thread::spawn(move || to_client.close()).join().unwrap();
    assert_eq!(server.frame().await, text_frame("before the close"));
    let id = server.disconnected().await;
    assert!(matches!(end_of(&server, id), Some(DisconnectReason::Closed)));
    let id = client.disconnected().await;
    assert!(matches!(end_of(&client, id), Some(DisconnectReason::EndOfFile)));
    // It is wanted, and comes back.
    tokio::join!(client.connected(), server.accepted());
}

#[tokio::test]
async fn closing_the_supervisor_waits_for_its_last_words() {
    let folder = tempdir().unwrap();
    let (mut server, client, _, to_server) = two(folder.path()).await;
    let long = Frame::new("{}", vec![4; 4 << 20]);
    to_server.queue(&long).unwrap();
    server.attend(client.supervisor.close()).await;
    assert!(server.frame().await == long);
    server.disconnected().await;
}
