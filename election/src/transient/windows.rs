//! The error numbers that the standard library has no kind for.

use windows_sys::Win32::Foundation::{
    ERROR_HANDLE_DISK_FULL, ERROR_IO_DEVICE, ERROR_LOCK_VIOLATION, ERROR_NO_SYSTEM_RESOURCES, ERROR_SHARING_VIOLATION,
    ERROR_TOO_MANY_OPEN_FILES,
};

/// Out of handles, a device that failed, or a file that another program (a virus scanner, a backup) has open for a moment.
pub(crate) fn is_transient_code(code: i32) -> bool {
    u32::try_from(code).is_ok_and(|code| {
        matches!(
            code,
            ERROR_HANDLE_DISK_FULL
                | ERROR_IO_DEVICE
                | ERROR_LOCK_VIOLATION
                | ERROR_NO_SYSTEM_RESOURCES
                | ERROR_SHARING_VIOLATION
                | ERROR_TOO_MANY_OPEN_FILES
        )
    })
}
