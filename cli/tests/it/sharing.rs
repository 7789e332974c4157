//! What the callers of a run get.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use crate::support::{Going, World, finish, until_true, wait_for};

#[test]
fn all_see_the_output_live_from_its_beginning_and_get_the_status() {
    let world = World::new();
    let script = format!("echo run >>runs; echo one; echo two >&2; {}; echo three; exit 7", wait_for("go"));
    let leader = Going::start(&mut world.run("k", &script));
    leader.says("one\n");
    let early = Going::start(&mut world.run("k", &script));
    early.says("one\n");
    early.complains("two\n");
    // Late: all of it is there already.
    let late = Going::start(&mut world.run("k", "echo other"));
    late.says("one\n");
    late.complains("two\n");
    world.joined("k", 2);
    assert_eq!(leader.out(), "one\n", "the run goes on");
    world.touch("go");
    for caller in [leader, early, late] {
        let ended = caller.end();
        assert_eq!((ended.code, &*ended.out), (Some(7), "one\nthree\n"), "{ended:?}");
        // The wait may have been announced by now.
        assert!(ended.err.starts_with("two\n"), "{ended:?}");
    }
    assert_eq!(world.lines("runs"), 1);
    until_true("no spool is left", || world.spools().is_empty());
}

#[test]
fn streams_come_in_the_order_in_which_they_were_written() {
    let world = World::new();
    // Pauses, since the order of two pipes within some microseconds is nobody's to know.
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8; do echo out$i; sleep 0.02; echo err$i >&2; sleep 0.02; done; {}",
        wait_for("go")
    );
    let leader = Going::start(&mut world.run("k", &script));
    leader.says("out1");
    // Both streams in one file tell the order.
    let file = File::create(world.path("both")).unwrap();
    let mut joiner = world.run("k", "true");
    joiner.arg("--").stdout(file.try_clone().unwrap()).stderr(file);
    let mut joiner = joiner.spawn().unwrap();
    leader.complains("err8");
    world.touch("go");
    assert!(joiner.wait().unwrap().success());
    assert_eq!(leader.end().code, Some(0));
    let both = world.read("both");
    let shown: Vec<&str> = both.lines().filter(|line| !line.starts_with("flight:")).collect();
    let wanted: Vec<String> = (1..=8).flat_map(|i| [format!("out{i}"), format!("err{i}")]).collect();
    assert_eq!(shown, wanted);
}

#[test]
fn the_command_gets_the_callers_input_directory_and_environment_and_the_runs_numbers() {
    let world = World::new();
    fs::create_dir(world.path("here")).unwrap();
    let mut flight = world.flight(&[
        "run",
        "a key",
        "--",
        "sh",
        "-c",
        "cat; pwd; echo $MINE $FLIGHT_KEY $FLIGHT_TOKEN $FLIGHT_EPOCH",
    ]);
    flight.current_dir(world.path("here")).env("MINE", "yours").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = flight.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from the caller\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "from the caller");
    assert!(lines[1].ends_with("/here"), "{text}");
    let words: Vec<&str> = lines[2].split(' ').collect();
    assert_eq!(words[..3], ["yours", "a", "key"]);
    let (token, epoch): (u64, u64) = (words[3].parse().unwrap(), words[4].parse().unwrap());
    assert_eq!(token >> 32, epoch);
}

#[test]
fn each_status_is_that_of_the_command_for_all_callers() {
    let world = World::new();
    fs::write(world.path("plain"), "no program").unwrap();
    fs::create_dir(world.path("folder")).unwrap();
    let cases: [(&str, i32); 12] = [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 2", 2),
        ("exit 75", 75),
        ("exit 126", 126),
        ("exit 127", 127),
        ("exit 128", 128),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
        ("kill -INT $$", 130),
    ];
    for (script, code) in cases {
        let script = format!("{}; {script}", wait_for("go"));
        let leader = Going::start(&mut world.run("k", &script));
        until_true("it leads", || world.flight_of("k").is_some());
        let joiner = Going::start(&mut world.run("k", &script));
        world.joined("k", 1);
        world.touch("go");
        let (leader, joiner) = (leader.end(), joiner.end());
        assert_eq!((leader.code, joiner.code), (Some(code), Some(code)), "{script}: {leader:?} {joiner:?}");
        fs::remove_file(world.path("go")).unwrap();
    }
    for (program, code, words) in [
        ("./none", 127, "cannot find ./none"),
        ("./plain", 126, "cannot execute ./plain"),
        ("./folder", 126, "cannot execute ./folder"),
    ] {
        let ended = finish(&mut world.flight(&["run", "k", "--", program]));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(words), "{ended:?}");
    }
}

#[test]
fn bytes_of_every_kind_pass_through() {
    let world = World::new();
    let bytes: Vec<u8> = (0..=255).collect();
    fs::write(world.path("bytes"), &bytes).unwrap();
    let odd = OsStr::from_bytes(b"d\xff \"'\n");
    let argument = OsStr::from_bytes(b"a\xfe$`\\\n b");
    let command = || {
        let mut flight = world.flight(&["run"]);
        // A directory that is no UTF-8, and longer than the address of a socket.
        flight.arg("--dir").arg(world.path(&"x".repeat(120)).join(odd)).args(["k", "--", "sh", "-c"]);
        flight.arg(format!("cat bytes; printf %s \"$1\"; {}", wait_for("go"))).arg("sh").arg(argument);
        flight.env_remove("FLIGHT_DIR");
        flight
    };
    let start = |mut command: std::process::Command| command.stdout(Stdio::piped()).spawn().unwrap();
    let mut wanted = bytes;
    wanted.extend_from_slice(argument.as_bytes());
    let mut leader = start(command());
    let mut got = vec![0; wanted.len()];
    leader.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert_eq!(got, wanted);
    let mut joiner = start(command());
    let mut got = vec![0; wanted.len()];
    joiner.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert_eq!(got, wanted);
    world.touch("go");
    assert!(leader.wait().unwrap().success() && joiner.wait().unwrap().success());
}

#[test]
fn a_reader_that_left_or_does_not_read_disturbs_nobody() {
    let world = World::new();
    // More than the pipes between them hold.
    let script = format!("echo first; {}; head -c 3000000 /dev/zero; echo last", wait_for("go"));
    let leader = Going::start(&mut world.run("k", &script));
    leader.says("first");
    let mut unread = world.run("k", "true").stdout(Stdio::piped()).spawn().unwrap();
    let mut left = world.run("k", "true").stdout(Stdio::piped()).spawn().unwrap();
    let full =
        world.run("k", "true").stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let reads = Going::start(&mut world.run("k", "true"));
    world.joined("k", 4);
    drop(left.stdout.take());
    world.touch("go");
    for caller in [leader, reads] {
        let ended = caller.end();
        assert_eq!((ended.code, ended.out.len()), (Some(0), 3_000_000 + 11), "{}", ended.err);
        assert!(ended.out.ends_with("last\n"));
    }
    // Whose reader left gets the status all the same.
    assert_eq!(left.wait().unwrap().code(), Some(0));
    let full = full.wait_with_output().unwrap();
    assert_eq!(full.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&full.stderr).contains("cannot write the output to standard output"));
    // Nothing was lost for the one that did not read yet.
    let mut all = Vec::new();
    unread.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 3_000_000 + 11);
    assert_eq!(unread.wait().unwrap().code(), Some(0));
}

#[test]
fn a_leader_whose_reader_left_goes_on_for_the_others() {
    let world = World::new();
    let script = format!("echo first; {}; head -c 500000 /dev/zero; exit 5", wait_for("go"));
    let mut leader = world.run("k", &script).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 6];
    leader.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    drop(leader.stdout.take());
    let joiner = Going::start(&mut world.run("k", "true"));
    joiner.says("first");
    world.touch("go");
    let ended = joiner.end();
    assert_eq!((ended.code, ended.out.len()), (Some(5), 500_006));
    assert_eq!(leader.wait().unwrap().code(), Some(5));
}

#[test]
fn a_leader_whose_reader_is_slow_lands_for_the_others() {
    let world = World::new();
    let mut leader =
        world.run("k", "touch began; head -c 1000000 /dev/zero; exit 5").stdout(Stdio::piped()).spawn().unwrap();
    until_true("it runs", || world.path("began").exists());
    // Its own output is in its way, and the run is over for everybody else.
    let mut next = None;
    until_true("the key is free", || {
        let ended = finish(&mut world.run("k", "echo next"));
        let is_next = ended.out == "next\n";
        next = Some(ended);
        is_next
    });
    assert!(leader.try_wait().unwrap().is_none(), "it has not shown its output yet");
    let mut all = Vec::new();
    leader.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 1_000_000);
    assert_eq!(leader.wait().unwrap().code(), Some(5));
}

#[test]
fn json_tells_the_result_on_one_line() {
    let world = World::new();
    let ended = finish(&mut world.flight(&["run", "--json", "k", "--", "sh", "-c", "exit 4"]));
    let line: serde_json::Value = serde_json::from_str(&ended.err).unwrap();
    assert_eq!((&line["key"], &line["code"], &line["joined"]), (&"k".into(), &4.into(), &false.into()), "{line}");
    let token: u64 = line["token"].as_str().unwrap().parse().unwrap();
    assert_eq!(line["epoch"], token >> 32);
}

#[test]
fn a_full_disk_takes_the_output_from_those_who_joined_and_nothing_from_the_command() {
    let world = World::new();
    // A limit of the file size stands for the disk. The shell ignores the signal, and so does what it starts.
    let script = format!("echo first; {}; head -c 500000 /dev/zero; exit 0", wait_for("go"));
    let mut leader = world.flight(&[]);
    let flight = env!("CARGO_BIN_EXE_flight");
    leader = {
        let mut limited = std::process::Command::new("sh");
        limited.args([
            "-c",
            "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\"",
            flight,
            "run",
            "k",
            "--",
            "sh",
            "-c",
            &script,
        ]);
        limited.current_dir(leader.get_current_dir().unwrap()).env("FLIGHT_DIR", world.flights());
        limited
    };
    let leader = Going::start(&mut leader);
    leader.says("first");
    let joiner = Going::start(&mut world.run("k", "true"));
    joiner.says("first");
    world.touch("go");
    let leader = leader.end();
    assert_eq!((leader.code, leader.out.len()), (Some(0), 500_006), "{}", leader.err);
    let joiner = joiner.end();
    assert_eq!(joiner.code, Some(69), "{}", joiner.err);
    assert!(joiner.out.len() > 50_000 && joiner.out.len() < 500_006);
    assert!(joiner.err.contains("a part of the output is missing here"), "{}", joiner.err);
}
