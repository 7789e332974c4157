//! What the kernel says of an open directory's file system.

use std::fs::File;
use std::io;
use std::path::Path;

use super::FileSystem;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn inspect(directory: &File, _path: &Path) -> io::Result<FileSystem> {
    use super::linux_kinds::{FUSE, classify};

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the kernel's numbers have 32 bits")]
    let magic = rustix::fs::fstatfs(directory)?.f_type as u32;
    if magic != FUSE {
        return Ok(classify(magic, "", (0, 0)));
    }
    let device = rustix::fs::fstat(directory)?.st_dev;
    // Without /proc nothing is known of it, and its locks are tried all the same.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Ok(classify(magic, &mounts, (rustix::fs::major(device), rustix::fs::minor(device))))
}

/// macOS and the BSDs know for each mount whether it is local.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn inspect(directory: &File, _path: &Path) -> io::Result<FileSystem> {
    use super::Kind;

    /// `MNT_LOCAL` of sys/mount.h, the same number on all of them.
    const LOCAL: u64 = 0x0000_1000;
    let found = rustix::fs::fstatfs(directory)?;
    #[allow(
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "the characters of C are signed on some systems"
    )]
    let name: Vec<u8> = found.f_fstypename.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    #[allow(
        clippy::cast_lossless,
        clippy::unnecessary_cast,
        reason = "the width of the flags differs between the systems"
    )]
    let flags = found.f_flags as u64;
    let kind = if flags & LOCAL == 0 { Kind::Network } else { Kind::Local };
    Ok(FileSystem { name: String::from_utf8_lossy(&name).into_owned(), kind })
}
