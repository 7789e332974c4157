//! When the process that serves goes, another one does, and exactly one.

use flight_connection::{Event, Frame};
use tempfile::tempdir;

use super::process::Process;
use crate::party::{Party, end_of, say, text_frame};

/// How its search ended.
#[track_caller]
fn settled(process: &mut Process) -> String {
    loop {
        let phase = process.until("phase");
        if phase.starts_with("Serving") || phase.starts_with("Connected") {
            return phase;
        }
    }
}

#[test]
fn of_many_that_lose_their_server_one_serves_and_the_epochs_grow() {
    let folder = tempdir().unwrap();
    let mut server = Process::start(folder.path());
    let mut epoch: u32 = server.until("elected").parse().unwrap();
    let mut clients: Vec<Process> = (0..6).map(|_| Process::start(folder.path())).collect();
    for client in &mut clients {
        client.until(&format!("connected {epoch}"));
    }
    while !clients.is_empty() {
        server.kill();
        let mut elected = None;
        for client in &mut clients {
            client.until("disconnected theirs");
        }
        for (place, client) in clients.iter_mut().enumerate() {
            // What follows the disconnection is one of the two.
            if settled(client).starts_with("Serving") {
                assert_eq!(elected.replace(place), None, "two serve");
            }
        }
        let place = elected.expect("one serves");
        server = clients.remove(place);
        let line = server.passed.iter().rev().find_map(|line| line.strip_prefix("elected "));
        let next: u32 = line.expect("it said so").parse().unwrap();
        assert_eq!(next, epoch + 1, "one election, one epoch");
        epoch = next;
        for client in &mut clients {
            let connected = client.passed.iter().rev().find_map(|line| line.strip_prefix("connected "));
            assert_eq!(connected.unwrap(), format!("{epoch} Some({})", server.id()));
            assert!(!client.passed.iter().any(|line| line.starts_with("failed")), "{:?}", client.passed);
        }
    }
}

#[tokio::test]
async fn what_a_killed_server_wrote_is_read_although_our_own_write_fails_first() {
    let folder = tempdir().unwrap();
    let mut server = Process::start(folder.path());
    server.until("elected");
    let mut client = Party::new(folder.path());
    let to_server = client.connected().await;
    server.until("accepted");

    // Nobody takes events while it speaks and dies.
    server.tell("say last words");
    server.tell("say and more");
    server.until("said and more");
    server.kill();
    to_server.queue(&Frame::new("{}", vec![1; 1 << 20])).unwrap();
    assert_eq!(to_server.flush().backlog, 0, "it failed, and nothing waits");

    assert_eq!(client.frame().await, text_frame("last words"));
    assert_eq!(client.frame().await, text_frame("and more"));
    let ended = client.disconnected().await;
    assert_eq!(ended, to_server.id());
    assert!(end_of(&client, ended).is_some());
    client.elected().await;
}

#[test]
fn a_server_that_closes_hands_over_to_those_who_come_meanwhile() {
    let folder = tempdir().unwrap();
    let mut server = Process::start(folder.path());
    let mut epoch: u32 = server.until("elected").parse().unwrap();
    for _ in 0..8 {
        // The newcomer may meet the server before, while or after it closes.
        server.tell("close");
        let mut newcomer = Process::start(folder.path());
        server.until("closed");
        let next: u32 = newcomer.until("elected").parse().unwrap();
        assert_eq!(next, epoch + 1);
        assert!(!newcomer.passed.iter().any(|line| line.starts_with("failed")), "{:?}", newcomer.passed);
        (server, epoch) = (newcomer, next);
    }
}

#[tokio::test]
async fn who_is_not_wanted_stays_idle_when_its_server_goes() {
    let folder = tempdir().unwrap();
    let mut server = Process::start(folder.path());
    let first: u32 = server.until("elected").parse().unwrap();
    let mut client = Party::new(folder.path());
    client.connected().await;
    client.supervisor.want(false);
    server.kill();
    client.disconnected().await;
    let idle = |event: &Event| matches!(event, Event::Phase(flight_connection::Phase::Idle)).then_some(());
    client.until(idle).await;

    let mut another = Process::start(folder.path());
    assert_eq!(another.until("elected"), (first + 1).to_string());
    client.supervisor.handle().want(true);
    let connection = client.connected().await;
    say(&connection, "back again");
    assert!(another.until("frame").contains("back again"));
}

#[test]
fn sixty_four_that_start_over_a_dead_socket_elect_one() {
    let folder = tempdir().unwrap();
    let mut dead = Process::start(folder.path());
    let before: u32 = dead.until("elected").parse().unwrap();
    dead.kill();
    assert!(folder.path().join("flight.sock").exists());

    let mut starters: Vec<Process> = (0..64).map(|_| Process::start(folder.path())).collect();
    let mut servers = 0;
    for starter in &mut starters {
        servers += u32::from(settled(starter).starts_with("Serving"));
    }
    assert_eq!(servers, 1);
    let stored = std::fs::read_to_string(folder.path().join("flight.epoch")).unwrap();
    assert_eq!(stored, format!("{}\n", before + 1), "one election");
    for starter in &mut starters {
        starter.drain();
        let failed = starter.passed.iter().any(|line| line.starts_with("failed") || line.starts_with("disconnected"));
        assert!(!failed, "{:?}", starter.passed);
    }
}
