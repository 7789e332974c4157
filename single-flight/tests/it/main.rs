//! The library as a program meets it, in one process.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod one_process;
