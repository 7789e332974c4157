//! Which failures of the operating system pass by themselves.

use std::io::{Error, ErrorKind};

#[cfg_attr(unix, path = "transient/unix.rs")]
#[cfg_attr(windows, path = "transient/windows.rs")]
mod platform;

/// Whether the same attempt may succeed a moment later although nobody repairs anything here: a resource ran out that others use too.
pub(crate) fn is_transient(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::OutOfMemory
            | ErrorKind::Interrupted
            | ErrorKind::ResourceBusy
    ) || error.raw_os_error().is_some_and(platform::is_transient_code)
}
