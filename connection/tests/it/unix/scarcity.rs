//! Something has run out.

use flight_connection::Event;
use tempfile::tempdir;

use super::process::Process;
use super::raw::Raw;
use crate::party::{Party, say};

#[tokio::test]
async fn a_server_without_descriptors_serves_those_it_has_and_lets_others_in_later() {
    let folder = tempdir().unwrap();
    let mut server = Process::start_with_descriptors(folder.path(), 32);
    server.until("elected");
    let mut client = Party::new(folder.path());
    let to_server = client.connected().await;
    server.until("accepted");

    // They take all descriptors, and more wait in the kernel's queue.
    let mut crowd: Vec<Raw> = (0..60).map(|_| Raw::connect(folder.path())).collect();
    crowd.iter_mut().for_each(|raw| raw.say_hello(folder.path()));
    for number in 0..8 {
        say(&to_server, &format!("{number}"));
        assert!(server.until("frame").contains(&number.to_string()));
    }
    #[cfg(target_os = "linux")]
    {
        let before = server.processor_time();
        // tidy: the time over which the processor time is measured
        std::thread::sleep(std::time::Duration::from_secs(1));
        let used = server.processor_time() - before;
        assert!(used < 0.2, "it spins: {used} s of processor time in a second");
    }
    say(&to_server, "served all the time");
    assert!(server.until("frame").contains("served all the time"));

    drop(crowd);
    let mut newcomer = Party::new(folder.path());
    let connection = newcomer.connected().await;
    say(&connection, "let in");
    assert!(server.until("frame").contains("let in"));
    client.assert_undisturbed();
    assert!(!server.passed.iter().any(|line| line.starts_with("deposed") || line.starts_with("failed")));
}

#[tokio::test]
async fn a_failure_is_told_counts_no_epoch_and_is_forgotten_when_it_is_repaired() {
    for name in ["flight.sock", "flight.new"] {
        let folder = tempdir().unwrap();
        // No socket can take the place of a directory.
        let obstacle = folder.path().join(name);
        std::fs::create_dir(&obstacle).unwrap();
        let mut party = Party::new(folder.path());
        let failure = |event: &Event| match event {
            Event::Failed(error) => Some((error.to_string(), error.is_fatal())),
            _ => None,
        };
        for _ in 0..2 {
            let (error, fatal) = party.until(failure).await;
            assert!(error.contains(name) && fatal, "{error}");
        }
        assert!(!folder.path().join("flight.epoch").exists());
        std::fs::remove_dir(&obstacle).unwrap();
        assert!(party.elected().await.is_current().unwrap());
    }
}
