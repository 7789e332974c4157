//! What `flight` itself refuses or gives up, and with which code.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Going, KILL, World, finish, until_true, wait_for};

#[test]
fn wrong_usage_is_64_and_says_what_is_wrong() {
    let world = World::new();
    for (args, words) in [
        (&["run", "k"][..], "<CMD>"),
        (&["run", "--", "true"], "<KEY>"),
        (&["run", "--wait", "soon", "k", "--", "true"], "a number of seconds"),
        (&["run", "--wait=-1", "k", "--", "true"], "not negative"),
        (&["run", "k", "true"], "unexpected argument"),
        (&["fly"], "unrecognized subcommand"),
        (&[], "subcommand"),
        (&["lock", "--wait", "1", "--no-wait", "k", "--", "true"], "cannot be used with"),
    ] {
        let ended = finish(&mut world.flight(args));
        assert_eq!(ended.code, Some(64), "{args:?}: {ended:?}");
        assert!(ended.err.contains(words), "{args:?}: {ended:?}");
    }
    let mut odd = world.flight(&["run"]);
    odd.arg(OsStr::from_bytes(b"k\xff")).args(["--", "true"]);
    let ended = finish(&mut odd);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.err.contains("UTF-8"), "{ended:?}");
}

#[test]
fn without_a_directory_it_says_why_there_is_no_default() {
    let world = World::new();
    for value in [None, Some("")] {
        let mut flight = world.flight(&["run", "k", "--", "true"]);
        flight.env_remove("FLIGHT_DIR");
        if let Some(value) = value {
            flight.env("FLIGHT_DIR", value);
        }
        let ended = finish(&mut flight);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.err.contains("--dir DIR or set FLIGHT_DIR") && ended.err.contains("no default"), "{ended:?}");
    }
}

#[test]
fn every_code_is_listed() {
    let world = World::new();
    for args in [&["--help"][..], &["run", "--help"], &["lock", "--help"], &["elect", "--help"]] {
        let ended = finish(&mut world.flight(args));
        assert_eq!(ended.code, Some(0));
        for code in ["64", "69", "74", "75", "76", "78", "126", "127", "128+n"] {
            assert!(ended.out.contains(code), "{code}: {}", ended.out);
        }
    }
    assert!(finish(&mut world.flight(&["--version"])).out.starts_with("flight "));
    let bash = finish(&mut world.flight(&["completions", "bash"]));
    assert!(bash.out.contains("complete -F _flight"));
    let man = finish(&mut world.flight(&["man"]));
    assert!(man.out.contains(".TH") && man.out.contains("FLIGHT_TOKEN") && !man.out.contains("__drain"));
}

#[test]
fn a_directory_that_cannot_be_used_is_69() {
    let world = World::new();
    fs::write(world.path("file"), "").unwrap();
    for args in [["run", "k"], ["lock", "k"], ["elect", "k"]] {
        let ended = finish(world.flight(&args).args(["--", "true"]).env("FLIGHT_DIR", world.path("file")));
        assert_eq!(ended.code, Some(69), "{ended:?}");
        assert!(ended.err.contains("is not a directory"), "{ended:?}");
    }
    fs::create_dir(world.path("closed")).unwrap();
    fs::set_permissions(world.path("closed"), fs::Permissions::from_mode(0o500)).unwrap();
}

#[test]
fn a_limit_that_runs_out_is_75_and_starts_nothing() {
    let world = World::new();
    let leader = Going::start(&mut world.run("k", &format!("echo ready; echo run >>runs; {}", wait_for("go"))));
    leader.says("ready");
    let ended = finish(&mut world.flight(&["run", "--wait", "0.3", "k", "--", "sh", "-c", "echo run >>runs"]));
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.err.contains(&format!("process {}", leader.pid())), "{ended:?}");
    assert!(!ended.err.to_lowercase().contains("delete"), "{ended:?}");
    world.touch("go");
    assert_eq!(leader.end().code, Some(0));
    assert_eq!(world.lines("runs"), 1);
    // The limit is for the wait, not for the command.
    let own = finish(&mut world.flight(&["run", "--wait", "5", "k", "--", "sleep", "0.2"]));
    assert_eq!(own.code, Some(0), "{own:?}");
}

#[test]
fn a_run_whose_leader_and_command_die_is_76_at_once() {
    let world = World::new();
    let leader = Going::start(&mut world.run("k", "echo $$; exec sleep 1000"));
    leader.says("\n");
    let command: u32 = leader.out().trim().parse().unwrap();
    let joiner = Going::start(&mut world.flight(&["run", "--wait", "50", "k", "--", "true"]));
    world.joined("k", 1);
    leader.signal(KILL);
    crate::support::signal_to(command, KILL);
    let ended = joiner.end();
    assert_eq!((ended.code, &*ended.out), (Some(76), &*format!("{command}\n")), "{ended:?}");
    assert_eq!(finish(&mut world.run("k", "echo next")).out, "next\n");
}

#[test]
fn a_lock_that_is_removed_under_a_command_ends_it_with_76() {
    let world = World::new();
    let leader = Going::start(&mut world.run("k", "echo ready; exec sleep 1000"));
    leader.says("ready");
    fs::remove_dir_all(world.flights().join("execution-locks")).unwrap();
    let ended = leader.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.err.contains("removed or replaced"), "{ended:?}");
}

#[test]
fn a_call_inside_the_run_of_its_key_is_78_at_once() {
    let world = World::new();
    fs::write(world.path("Makefile"), "all:\n\t$(FLIGHT) run k -- true\n").unwrap();
    for script in [
        "$FLIGHT run k -- true",
        "sh -c '$FLIGHT run k -- true'",
        "$FLIGHT run other -- $FLIGHT run k -- true",
        "$FLIGHT lock other -- $FLIGHT run k -- true",
        "$FLIGHT lock k -- true",
    ] {
        let ended = finish(&mut world.run("k", script));
        assert_eq!(ended.code, Some(78), "{script}: {ended:?}");
        assert!(ended.err.contains("inside the run of \"k\""), "{script}: {ended:?}");
    }
    let made = finish(&mut world.run("k", "make"));
    assert_eq!(made.code, Some(2), "{made:?}");
    assert!(made.err.contains("Error 78"), "{made:?}");
    let locked = finish(&mut world.flight(&["lock", "k", "--", "sh", "-c", "$FLIGHT run k -- true"]));
    assert_eq!(locked.code, Some(78), "{locked:?}");
    let ended = finish(&mut world.run("k", "$FLIGHT run other -- echo inner"));
    assert_eq!((ended.code, &*ended.out), (Some(0), "inner\n"), "{ended:?}");
}

#[test]
fn the_mark_does_not_reach_a_daemons_later_life() {
    let world = World::new();
    let daemon = format!(
        "({}; $FLIGHT run k -- echo from the daemon >>log 2>&1; echo $? >>log) >/dev/null 2>&1 &",
        wait_for("go")
    );
    assert_eq!(finish(&mut world.run("k", &daemon)).code, Some(0));
    world.touch("go");
    until_true("the daemon's own run", || world.read("log") == "from the daemon\n0\n");
    // Also while another run of the key goes on: it joins that.
    let world = World::new();
    assert_eq!(finish(&mut world.run("k", &daemon)).code, Some(0));
    let second = Going::start(&mut world.run("k", &format!("echo second; {}", wait_for("end"))));
    second.says("second");
    world.touch("go");
    world.joined("k", 1);
    world.touch("end");
    until_true("the daemon's call", || world.read("log") == "second\n0\n");
}

#[test]
fn a_wait_is_announced_once_and_not_if_quiet() {
    let world = World::new();
    let leader = Going::start(&mut world.run("k\n2", &format!("echo ready; {}", wait_for("go"))));
    leader.says("ready");
    let told = Going::start(&mut world.run("k\n2", "true"));
    let quiet = Going::start(&mut world.flight(&["run", "--quiet", "k\n2", "--", "true"]));
    world.joined("k\n2", 2);
    told.complains("flight: waiting");
    // tidy: as long again, so that a second line would come.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    world.touch("go");
    let told = told.end();
    let wanted = format!("flight: waiting for \"k\\n2\": process {} (sh -c echo ready; ", leader.pid());
    assert!(told.err.starts_with(&wanted) && told.err.lines().count() == 1, "{told:?}");
    assert!(told.err.contains("has been running it for ") && !told.err.contains('\x1b'), "{told:?}");
    assert_eq!(quiet.end().err, "");
}
