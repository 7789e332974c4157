#![doc = include_str!("../README.md")]

mod backoff;
mod directory_identity;
mod error;
mod key_lock;
mod key_locks;
mod local_directory;
mod lock_file;
mod network_fs;
mod platform;

pub use directory_identity::DirectoryIdentity;
pub use error::{LockError, LockStep, OpenDirectoryError};
pub use key_lock::KeyLock;
pub use key_locks::{KeyLocks, Sweep};
pub use local_directory::LocalDirectory;
pub use lock_file::LockFile;
