//! The error numbers that the standard library has no kind for.

use rustix::io::Errno;

/// Out of descriptors (of the process, of the system), or a device that failed.
pub(crate) fn is_transient_code(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::IO].contains(&Errno::from_raw_os_error(code))
}
