//! Whose a process is. On Unix the kernel tells with the socket, so that this is for Windows alone.

mod windows;

pub(crate) use windows::{Rights, is_trusted};
