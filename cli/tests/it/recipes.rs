//! The recipes of the README, as they stand there, with small programs in the place of the big ones.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use crate::support::{Ended, Going, TERM, World, finish, signal_to, until_true};

const README: &str = include_str!("../../README.md");

/// The command of a recipe.
fn recipe(number: usize) -> &'static str {
    let text = README.split(&format!("### {number}. ")).nth(1).unwrap();
    text.split("```sh\n").nth(1).unwrap().split("\n```").next().unwrap()
}

/// A world in which a program of that name is a script.
fn with(programs: &[(&str, &str)]) -> World {
    let world = World::new();
    fs::create_dir(world.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_flight"), world.path("bin/flight")).unwrap();
    for (name, script) in programs {
        let path = world.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    world
}

fn call(world: &World, number: usize) -> Command {
    let given = world.flight(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", recipe(number)]).current_dir(given.get_current_dir().unwrap());
    shell.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap()));
    shell
}

fn all(world: &World, number: usize, count: usize) -> Vec<Ended> {
    let going: Vec<Going> = (0..count).map(|_| Going::start(&mut call(world, number))).collect();
    going.into_iter().map(Going::end).collect()
}

const SLOW: &str = "echo run >>runs; echo working; until [ -e go ]; do sleep 0.02; done";

#[test]
fn cron_jobs_that_overlap() {
    let world = with(&[("backup", SLOW)]);
    let first = Going::start(&mut call(&world, 1));
    first.says("working");
    assert_eq!(finish(&mut call(&world, 1)).code, Some(0));
    assert_eq!(world.lines("runs"), 1);
    world.touch("go");
    assert_eq!(first.end().code, Some(0));
    // A failure of the job itself is one.
    let world = with(&[("backup", "exit 3")]);
    assert_eq!(finish(&mut call(&world, 1)).code, Some(1));
}

#[test]
fn one_download_for_thirty_jobs() {
    let world = with(&[("bin/npm", "echo run >>runs; mkdir -p node_modules; sleep 0.2; echo got it")]);
    world.touch("package-lock.json");
    for ended in all(&world, 2, 30) {
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(world.lines("runs"), 1);
}

#[test]
fn one_build_for_many_editors() {
    let world = with(&[("bin/make", "echo start >>log; cat src/a; sleep 0.1; echo end >>log")]);
    fs::create_dir(world.path("src")).unwrap();
    fs::write(world.path("src/a"), "one\n").unwrap();
    let slow = with(&[("bin/make", SLOW)]);
    fs::create_dir(slow.path("src")).unwrap();
    fs::write(slow.path("src/a"), "one\n").unwrap();
    // The same sources: one build.
    let first = Going::start(&mut call(&slow, 3));
    first.says("working");
    let second = Going::start(&mut call(&slow, 3));
    second.says("working");
    slow.touch("go");
    assert_eq!((first.end().code, second.end().code), (Some(0), Some(0)));
    assert_eq!(slow.lines("runs"), 1);
    // Other sources: another, after it.
    let old = Going::start(&mut call(&world, 3));
    until_true("it builds", || world.read("log").starts_with("start"));
    fs::write(world.path("src/a"), "two, changed\n").unwrap();
    let new = finish(&mut call(&world, 3));
    assert_eq!((new.code, &*new.out), (Some(0), "two, changed\n"));
    assert_eq!(old.end().code, Some(0));
    assert_eq!(world.read("log"), "start\nend\n".repeat(2));
}

#[test]
fn refreshing_a_token() {
    let world = with(&[("refresh", "echo run >>runs; sleep 0.2; echo secret")]);
    for ended in all(&world, 4, 10) {
        assert_eq!((ended.code, &*ended.out), (Some(0), "secret\n"), "{ended:?}");
    }
    assert_eq!(world.lines("runs"), 1);
    let failing = with(&[("refresh", "exit 4")]);
    assert_eq!(finish(&mut call(&failing, 4)).code, Some(4));
}

#[test]
fn a_server_that_is_started_once() {
    let world = with(&[("healthy", "[ -e up ]"), ("server", "echo $$ >>pids; sleep 0.2; touch up; exec sleep 60")]);
    for ended in all(&world, 5, 10) {
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(finish(&mut call(&world, 5)).code, Some(0));
    let pids = world.read("pids");
    assert_eq!(pids.lines().count(), 1, "{pids}");
    signal_to(pids.trim().parse().unwrap(), TERM);
}

#[test]
fn a_leader_among_workers() {
    let world = with(&[("schedule", "echo $* $$ >>epochs; exec sleep 60")]);
    let workers: Vec<Going> = (0..3).map(|_| Going::start(&mut call(&world, 6))).collect();
    for led in 0..3 {
        until_true("one leads", || world.lines("epochs") == led + 1);
        let line: String = world.read("epochs").lines().last().unwrap().to_owned();
        assert!(line.starts_with("--epoch "), "{line}");
        signal_to(line.rsplit(' ').next().unwrap().parse().unwrap(), TERM);
    }
    for worker in workers {
        assert_eq!(worker.end().code, Some(143));
    }
    let epochs: Vec<u64> =
        world.read("epochs").lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

#[test]
fn in_place_of_flock() {
    let world = with(&[("job", SLOW)]);
    let first = Going::start(&mut call(&world, 7));
    first.says("working");
    assert_eq!(finish(&mut call(&world, 7)).code, Some(75));
    world.touch("go");
    assert_eq!(first.end().code, Some(0));
    assert_eq!(finish(&mut call(&world, 7)).code, Some(0));
}

#[test]
fn a_git_hook() {
    let world = with(&[
        ("bin/git", "case $2 in --absolute-git-dir) echo \"$PWD/repo git\";; *) echo abc123;; esac"),
        ("bin/make", SLOW),
    ]);
    let first = Going::start(&mut call(&world, 8));
    first.says("working");
    let second = Going::start(&mut call(&world, 8));
    second.says("working");
    world.touch("go");
    assert_eq!((first.end().code, second.end().code), (Some(0), Some(0)));
    assert_eq!(world.lines("runs"), 1);
    assert!(world.path("repo git/flights/flight.epoch").exists());
}
