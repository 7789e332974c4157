//! The command, by real processes, real signals and a pseudo-terminal.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod crowd;
mod elect;
mod lock;
mod recipes;
mod refusals;
mod sharing;
mod signals;
mod status;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
