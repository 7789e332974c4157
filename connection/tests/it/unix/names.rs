//! The socket and its name.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flight_connection::{AddressError, Supervisor};
use tempfile::tempdir;

use super::process::Process;
use crate::party::{Party, local, options, say, text_frame, two};

/// How soon a name that was lost is taken again. The checks are a second apart; a machine that is busy takes its time.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_removed_socket_is_published_again_and_nobody_connected_notices() {
    let folder = tempdir().unwrap();
    let (mut server, mut client, to_client, to_server) = two(folder.path()).await;
    let socket = folder.path().join("flight.sock");
    for foreign in [false, true] {
        std::fs::remove_file(&socket).unwrap();
        let _foreign = foreign.then(|| UnixListener::bind(&socket).unwrap());
        let mut third = Party::new(folder.path());
        let connected = tokio::time::timeout(SOON, third.connected());
        let (connected, _) = tokio::join!(connected, server.accepted());
        let to_third = connected.expect("it gets in soon");
        third.assert_undisturbed();
        say(&to_third, "through the new one");
        assert_eq!(server.frame().await, text_frame("through the new one"));
        server.attend(third.supervisor.close()).await;
        server.disconnected().await;
        server.passed.clear();
    }
    say(&to_server, "as ever");
    assert_eq!(server.frame().await, text_frame("as ever"));
    say(&to_client, "as ever, too");
    assert_eq!(client.frame().await, text_frame("as ever, too"));
    client.assert_undisturbed();
    server.assert_undisturbed();
}

#[tokio::test]
async fn a_left_over_of_an_election_is_in_nobodys_way() {
    let folder = tempdir().unwrap();
    for name in ["flight.new", "flight.try", "flight.sock"] {
        drop(UnixListener::bind(folder.path().join(name)).unwrap());
    }
    let (mut server, client, _, to_server) = two(folder.path()).await;
    say(&to_server, "hello");
    assert_eq!(server.frame().await, text_frame("hello"));
    client.assert_undisturbed();
    server.assert_undisturbed();
    assert!(!folder.path().join("flight.new").exists());
}

#[test]
fn the_socket_is_its_owners_whatever_the_umask_and_the_umask_stays() {
    for umask in [0o000, 0o777, 0o022] {
        let folder = tempdir().unwrap();
        let mut server = Process::start_with_umask(folder.path(), umask);
        server.until("elected");
        let metadata = std::fs::metadata(folder.path().join("flight.sock")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "with the umask {umask:o}");
        server.tell("umask");
        assert_eq!(server.until("umask"), format!("{umask:o}"));
    }
}

/// A folder in which the path of the socket has so many bytes.
fn folder_of(base: &Path, socket_length: usize, last: char) -> PathBuf {
    let mut path = base.as_os_str().to_str().unwrap().to_owned();
    let wanted = socket_length - "/flight.sock".len();
    while path.len() < wanted {
        path.push('/');
        let part = (wanted - path.len()).min(100);
        path.extend(std::iter::repeat_n('d', part));
        if wanted - path.len() == 1 {
            path.pop();
        }
    }
    path.pop();
    path.push(last);
    assert_eq!(Path::new(&path).join("flight.sock").as_os_str().len(), socket_length);
    PathBuf::from(path)
}

#[tokio::test]
async fn paths_of_any_length_are_reached_or_refused_before_anything_happens() {
    let base = tempdir().unwrap();
    for length in [103, 104, 107, 108, 109, 400] {
        let folder = folder_of(base.path(), length, 'd');
        if cfg!(target_os = "linux") {
            let (mut server, _client, _, to_server) = two(&folder).await;
            say(&to_server, "found you");
            assert_eq!(server.frame().await, text_frame("found you"), "with {length} bytes");
            assert!(folder.join("flight.sock").exists());
            continue;
        }
        match Supervisor::new(local(&folder), options()) {
            Ok(_) => assert!(length <= 103),
            Err(AddressError::TooLong { length: told, limit: 103, .. }) => assert!(length > 103 && told == length),
            Err(other) => panic!("{other}"),
        }
        assert!(!folder.join("flight.lock").exists());
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn long_paths_that_begin_alike_are_not_taken_for_each_other() {
    let base = tempdir().unwrap();
    let folders = ['1', '2'].map(|last| folder_of(base.path(), 400, last));
    assert_eq!(folders[0].as_os_str().as_encoded_bytes()[..108], folders[1].as_os_str().as_encoded_bytes()[..108]);
    let (mut one, mut other) = (Party::new(&folders[0]), Party::new(&folders[1]));
    let (first, second) = tokio::join!(one.elected(), other.elected());
    assert!(first.is_current().unwrap() && second.is_current().unwrap());
    let inode = |folder: &PathBuf| std::fs::metadata(folder.join("flight.sock")).unwrap().ino();
    assert_ne!(inode(&folders[0]), inode(&folders[1]));
}
