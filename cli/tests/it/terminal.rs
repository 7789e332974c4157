//! At a terminal: a pseudo-terminal with a session of its own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{DEADLINE, Going, INT, World, until, until_true, wait_for};

/// A terminal, and what runs in it.
struct Terminal {
    master: File,
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(world: &World, args: &[&str]) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let stdio = || Stdio::from(OwnedFd::from(slave.try_clone().unwrap()));
        let given = world.flight(&[]);
        // A session of its own, whose terminal this is.
        let mut setsid = Command::new("setsid");
        setsid.arg("--ctty").args(args).current_dir(given.get_current_dir().unwrap());
        setsid.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("PS1", "$ ");
        let child = setsid.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        let (mut reader, screen) = (File::from(master.try_clone().unwrap()), Arc::new(Mutex::new(Vec::new())));
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                shown.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Terminal { master: File::from(master), child, screen }
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    fn shows(&self, text: &str) {
        until(&format!("{text:?} on the screen"), || {
            let screen = self.screen();
            if screen.contains(text) { Ok(()) } else { Err(screen) }
        });
    }

    fn types(&self, text: &str) {
        (&self.master).write_all(text.as_bytes()).unwrap();
    }

    fn end(mut self) -> std::process::ExitStatus {
        let begun = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < DEADLINE, "it has not ended: {}", self.screen());
            // tidy: a pause between two looks.
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const FLIGHT: &str = env!("CARGO_BIN_EXE_flight");

#[test]
fn an_interrupt_reaches_the_command_once() {
    let world = World::new();
    let script = format!("trap 'echo int >>ints' INT; echo ready; {}; exit 5", wait_for("go"));
    let terminal = Terminal::start(&world, &[FLIGHT, "run", "k", "--", "sh", "-c", &script]);
    terminal.shows("ready");
    for count in 1..=3 {
        terminal.types("\x03");
        until_true("the interrupt", || world.lines("ints") >= count);
    }
    world.touch("go");
    assert_eq!(terminal.end().code(), Some(5));
    assert_eq!(world.lines("ints"), 3);
}

#[test]
fn an_interrupt_ends_the_script_around_it_as_usual() {
    let world = World::new();
    // As leader, and as joiner.
    for leads in [true, false] {
        let other = (!leads).then(|| Going::start(&mut world.run("k", "echo ready; exec sleep 100")));
        if let Some(other) = &other {
            other.says("ready");
        }
        let script = format!("{FLIGHT} run k -- sh -c 'echo ready; exec sleep 100'; echo went on");
        let terminal = Terminal::start(&world, &["bash", "-c", &script]);
        terminal.shows("ready");
        terminal.types("\x03");
        let screen = Arc::clone(&terminal.screen);
        let status = terminal.end();
        let screen = String::from_utf8_lossy(&screen.lock().unwrap()).into_owned();
        assert_eq!(status.signal(), Some(INT), "{screen}");
        assert!(!screen.contains("went on"), "{screen}");
    }
}

#[test]
fn a_leader_that_is_stopped_at_the_terminal_goes_on_with_fg() {
    let world = World::new();
    let coordinator = Going::start(&mut world.run("other", &format!("echo ready; {}", wait_for("stop"))));
    coordinator.says("ready");
    let terminal = Terminal::start(&world, &["bash", "--norc", "-i"]);
    terminal.shows("$ ");
    terminal.types(&format!("{FLIGHT} run k -- sh -c 'echo rea''dy; {}; echo do''ne'\r", wait_for("go")));
    terminal.shows("ready");
    let joiner = Going::start(&mut world.run("k", "true"));
    world.joined("k", 1);
    terminal.types("\x1a");
    terminal.shows("Stopped");
    joiner.complains("waiting for \"k\": process ");
    world.touch("go");
    terminal.types("fg\r");
    terminal.shows("done");
    let ended = joiner.end();
    assert_eq!((ended.code, &*ended.out), (Some(0), "ready\ndone\n"));
    terminal.types("exit\r");
    assert_eq!(terminal.end().code(), Some(0));
    world.touch("stop");
    assert_eq!(coordinator.end().code, Some(0));
}

#[test]
fn a_spinner_turns_at_a_terminal_and_makes_room_for_output() {
    let world = World::new();
    let leader =
        Going::start(&mut world.run("k", &format!("echo begun; {}; echo more; {}", wait_for("go"), wait_for("end"))));
    leader.says("begun");
    let terminal = Terminal::start(&world, &[FLIGHT, "run", "k", "--", "true"]);
    terminal.shows("begun");
    terminal.shows("flight: waiting for \"k\"");
    terminal.shows("| waiting for \"k\" (");
    terminal.shows("/ waiting for \"k\" (");
    world.touch("go");
    terminal.shows("\r\x1b[Kmore");
    world.touch("end");
    assert_eq!(leader.end().code, Some(0));
    let screen = Arc::clone(&terminal.screen);
    assert_eq!(terminal.end().code(), Some(0));
    let screen = String::from_utf8_lossy(&screen.lock().unwrap()).into_owned();
    let last = screen.rsplit("\r\x1b[K").next().unwrap();
    assert!(!last.contains("waiting"), "the last line is free: {screen:?}");
}
