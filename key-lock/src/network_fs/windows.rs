use super::FileSystem;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::{Component, Path, Prefix};
use windows_sys::Win32::Storage::FileSystem::GetDriveTypeW;

/// `DRIVE_REMOTE` of winbase.h.
const DRIVE_REMOTE: u32 = 4;

/// Looks at the drive of a directory. A path of a share is a network directory whatever is behind it.
pub(crate) fn inspect(_directory: &File, path: &Path) -> io::Result<FileSystem> {
    let path = std::fs::canonicalize(path)?;
    let drive = match path.components().next() {
        Some(Component::Prefix(prefix)) => match prefix.kind() {
            Prefix::UNC(..) | Prefix::VerbatimUNC(..) => {
                return Ok(FileSystem { name: "network share".to_owned(), network: true });
            }
            Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => format!("{}:\\", char::from(letter)),
            _ => String::new(),
        },
        _ => String::new(),
    };
    let root: Vec<u16> = std::ffi::OsStr::new(&drive).encode_wide().chain([0]).collect();
    // SAFETY: the pointer leads to text that ends with a zero and outlives the call.
    let kind = unsafe { GetDriveTypeW(root.as_ptr()) };
    Ok(FileSystem { name: format!("drive {drive}"), network: kind == DRIVE_REMOTE })
}
