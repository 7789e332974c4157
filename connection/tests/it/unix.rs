//! With sockets: what happens between processes of one host.

mod backlog;
mod dry;
mod frozen;
mod garbage;
mod handshake;
mod names;
#[cfg(target_os = "linux")]
mod namespaces;
mod process;
mod raw;
mod replaced;
mod scarcity;
mod takeover;
mod users;
