//! Containers that share the directory. They need rights and a tool (`unshare`) that not every machine gives: without, these tests pass
//! without a look.

use tempfile::tempdir;

use super::process::Process;

/// What separates them: process ids, and the network with its abstract sockets.
const KINDS: [&[&str]; 2] = [&["--pid", "--mount-proc"], &["--net"]];

#[test]
fn processes_of_different_namespaces_serve_each_other_and_take_over() {
    for kind in KINDS {
        let folder = tempdir().unwrap();
        let Some(mut inside) = Process::start_in_namespaces(folder.path(), kind) else { return };
        let first: u32 = inside.until("elected").parse().unwrap();
        let mut outside = Process::start(folder.path());
        outside.until(&format!("connected {first}"));
        let hides_pids = kind.contains(&"--pid");
        assert_eq!(inside.until("accepted") == "None", hides_pids, "what the kernel tells of a process outside");
        outside.tell("say from outside");
        assert!(inside.until("frame").contains("from outside"));

        inside.kill();
        assert_eq!(outside.until("elected"), (first + 1).to_string());
        let mut inside = Process::start_in_namespaces(folder.path(), kind).expect("as before");
        inside.until(&format!("connected {}", first + 1));
        inside.tell("say from inside");
        assert!(outside.until("frame").contains("from inside"));
        outside.kill();
        assert_eq!(inside.until("elected"), (first + 2).to_string());
    }
}
