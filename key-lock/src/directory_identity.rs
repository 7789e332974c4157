//! Which directory a directory is.

use std::fmt;

/// Which directory it is, whatever path leads to it: the file system and the number that it has there.
///
/// Two values are equal as long as the directory exists. When it is removed, its number may be given to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirectoryIdentity {
    pub(crate) device: u64,
    pub(crate) file: u64,
}

/// Both numbers in hexadecimal, with a hyphen between them: fit for a file name.
impl fmt::Display for DirectoryIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_in_hexadecimal() {
        assert_eq!(DirectoryIdentity { device: 0xfe00, file: 0x1f }.to_string(), "fe00-1f");
    }
}
