#![doc = include_str!("../README.md")]

mod backoff;
mod directory_identity;
mod error;
mod key_lock;
mod key_locks;
mod key_text;
mod local_directory;
mod lock_file;
mod lock_probe;
mod network_fs;
mod platform;
mod sweep;

pub use crate::directory_identity::DirectoryIdentity;
pub use crate::error::{LockError, LockStep, LockTarget, OpenDirectoryError, OpenDirectoryStep};
pub use crate::key_lock::KeyLock;
pub use crate::key_locks::KeyLocks;
pub use crate::local_directory::LocalDirectory;
pub use crate::lock_file::LockFile;
pub use crate::sweep::Sweep;
