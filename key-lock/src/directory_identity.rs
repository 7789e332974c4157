use std::fmt;

/// Which directory it is, whatever path leads to it: the file system and the number that it has there.
///
/// Two values are equal as long as the directory exists. When it is removed, its number may be used again.
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
