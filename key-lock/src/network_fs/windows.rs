//! What Windows says of a directory's drive.

use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::{Component, Path, Prefix};

use windows_sys::Win32::Storage::FileSystem::GetDriveTypeW;

use super::{FileSystem, Kind};

/// `DRIVE_REMOTE` of winbase.h.
const DRIVE_REMOTE: u32 = 4;

/// A path of a share is a network directory, whatever machine is behind it; a drive letter may stand for one too.
pub(crate) fn inspect(_directory: &File, path: &Path) -> io::Result<FileSystem> {
    let path = std::fs::canonicalize(path)?;
    let network = |name: &str| Ok(FileSystem { name: name.to_owned(), kind: Kind::Network });
    let Some(Component::Prefix(prefix)) = path.components().next() else {
        return Ok(FileSystem { name: "a drive of an unknown kind".to_owned(), kind: Kind::Local });
    };
    match prefix.kind() {
        Prefix::UNC(..) | Prefix::VerbatimUNC(..) => network("a share"),
        Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
            let root: Vec<u16> =
                std::ffi::OsStr::new(&format!("{}:\\", char::from(letter))).encode_wide().chain([0]).collect();
            // SAFETY: the pointer leads to text that ends with a zero and outlives the call.
            let kind = unsafe { GetDriveTypeW(root.as_ptr()) };
            let name = format!("drive {}:", char::from(letter));
            if kind == DRIVE_REMOTE { network(&name) } else { Ok(FileSystem { name, kind: Kind::Local }) }
        }
        // A volume by its identifier, which a share does not have.
        _ => Ok(FileSystem { name: "a volume".to_owned(), kind: Kind::Local }),
    }
}
