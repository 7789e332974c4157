//! Groups of real processes that share flights, and what happens to them when they are killed, frozen and robbed of their files.
//!
//! `cargo xtask e2e` runs it; a plain `cargo test` does not. A member of a group is this binary again (`inside.rs`), which does what its
//! standard input says and tells what it sees. A scenario (all other modules) waits for what members tell, never for time to pass: where a
//! pause is part of the story (a process that is frozen for three seconds) it says so. Every work appends its start and its end to the
//! group's journal, one file opened with `O_APPEND`, and the end of every scenario is the same check of it (`journal.rs`):
//!
//! - never two starts of a key without an end between them;
//! - the tokens of a key grow strictly;
//! - every value is that of the flight whose token came with it, and a leader's is its own.
//!
//! When a scenario fails, the group prints each member's command line, what it was told and said, and the directory's listing.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says what is wrong by failing, and a scenario prints what happened"
)]

mod coordinator;
mod crowd;
mod directory;
mod elections;
mod endings;
mod group;
mod inside;
mod journal;
mod leader;
mod member;
mod sharing;
mod storm;

use std::time::Duration;

/// Long enough for any machine. Whoever reaches it has failed.
const DEADLINE: Duration = Duration::from_secs(30);
