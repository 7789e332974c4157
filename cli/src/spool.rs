//! The output of a run, in a file that those who joined read while it grows.
//!
//! One file for each run, in `spools/` of the directory. Its name is the key's hash and the run's fencing token, so that who joined
//! finds it without being told more. It holds records: one byte for the stream, four for the length (little endian), the bytes. The
//! last one of a run that ended is what the run lands: the coordinators may all have ended before a joiner heard it.
//!
//! # Invariants
//!
//! 1. Who is between the beginning of a call and the opening of its spool holds the key's **door** shared; who removes a spool holds
//!    it exclusively. So nobody finds removed what he has just joined. A door is a byte of the file `spools/doors`, locked by the
//!    kernel; it opens when its process ends, however it ends.
//! 2. The writer of a spool holds the spool's own lock from before it lets go of its door until the run has landed. So a spool whose
//!    lock is free, while one holds its door exclusively, is of no use to anybody.
//! 3. Nothing waits for a door in the kernel, nor for long: a stopped process must not stop others.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flight_key_lock::{KeyLocks, LocalDirectory};
use single_flight::FencingToken;

use crate::platform;

/// The folder in the directory.
const FOLDER: &str = "spools";

/// The file whose bytes are the doors.
const DOORS: &str = "doors";

/// The head of a record.
pub(crate) const HEAD: usize = 5;

/// As much as is read, written and kept in memory at once.
pub(crate) const CHUNK: usize = 64 << 10;

/// What the bytes of a record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Of the command's standard output.
    Out = 1,
    /// Of its standard error.
    Err = 2,
    /// What the run lands.
    Landing = 3,
}

impl Stream {
    fn of(byte: u8) -> Option<Stream> {
        match byte {
            1 => Some(Stream::Out),
            2 => Some(Stream::Err),
            3 => Some(Stream::Landing),
            _ => None,
        }
    }
}

/// The spools of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Spools {
    folder: PathBuf,
    doors: Arc<File>,
}

impl Spools {
    pub(crate) fn open(directory: &LocalDirectory) -> Result<Spools, String> {
        let folder = directory.subdirectory(FOLDER).map_err(|error| error.to_string())?;
        let path = folder.path().join(DOORS);
        let doors = platform::private(OpenOptions::new().read(true).write(true).create(true))
            .open(&path)
            .map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        Ok(Spools { folder: folder.path().to_owned(), doors: Arc::new(doors) })
    }

    /// The name of a run's spool, which also names the run in `FLIGHT_LINEAGE`.
    pub(crate) fn name(key: &str, token: FencingToken) -> String {
        format!("{}-{token}", KeyLocks::file_name(key.as_bytes()))
    }

    /// A name for what is not a run, and is marked as one: no two have the same.
    pub(crate) fn name_of_lock(key: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        format!("{}-lock{}x{now}", KeyLocks::file_name(key.as_bytes()), process::id())
    }

    /// Passes the door of the key, as one of those for whom its spools must stay.
    pub(crate) fn enter(&self, key: &str) -> Entry {
        let door = door(&KeyLocks::file_name(key.as_bytes()));
        // A remover holds it for some microseconds. One that was stopped meanwhile is passed by: it removes only what has ended.
        for _ in 0..100 {
            if platform::lock_byte(&self.doors, door, platform::Byte::Shared).unwrap_or(true) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Entry { doors: Arc::clone(&self.doors), door }
    }

    /// A new spool. Needs an [`Entry`] by invariant 2.
    pub(crate) fn create(&self, name: &str, _entry: &Entry) -> io::Result<(Spool, File)> {
        let path = self.folder.join(name);
        let file = platform::private(OpenOptions::new().write(true).create_new(true)).open(&path)?;
        // Nobody else opens it yet but to read.
        platform::try_hold(&file)?;
        let reader = File::open(&path)?;
        Ok((Spool { file, length: 0 }, reader))
    }

    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        File::open(self.folder.join(name))
    }

    /// Whether the run of this name goes on, in this directory.
    pub(crate) fn is_live(&self, name: &str) -> bool {
        is_name(name) && File::open(self.folder.join(name)).is_ok_and(|file| !platform::try_hold(&file).unwrap_or(true))
    }

    /// Removes the spool of a run that has ended. If somebody has just passed the door, he does it.
    pub(crate) fn remove(&self, name: &str) {
        for _ in 0..10 {
            if self.remove_ended(name) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Removes what killed processes left.
    pub(crate) fn sweep(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        for name in files.flatten().filter_map(|file| file.file_name().into_string().ok()) {
            if is_name(&name) {
                self.remove_ended(&name);
            }
        }
    }

    /// `false`: the door was not free.
    fn remove_ended(&self, name: &str) -> bool {
        let path = self.folder.join(name);
        let Ok(file) = File::open(&path) else { return true };
        let door = door(name);
        if !platform::lock_byte(&self.doors, door, platform::Byte::Exclusive).unwrap_or(false) {
            return false;
        }
        // The lock is looked at behind the door, by invariant 2: before it, the writer may not have locked it yet.
        if platform::try_hold(&file).unwrap_or(false) {
            // Another may have removed it, and nobody makes one of the same name again.
            drop(fs::remove_file(&path));
        }
        drop(platform::lock_byte(&self.doors, door, platform::Byte::Free));
        true
    }
}

/// Somebody for whom the spools of a key must stay. See invariant 1.
#[derive(Debug)]
pub(crate) struct Entry {
    doors: Arc<File>,
    door: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        drop(platform::lock_byte(&self.doors, self.door, platform::Byte::Free));
    }
}

/// The byte that is the door of a key: two keys that share one only wait for each other some microseconds more.
fn door(hash: &str) -> u64 {
    // 60 bits, so that it is a valid offset everywhere.
    hash.get(..15).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// Whether it is 64 hexadecimal digits, a dash, and a token.
fn is_name(name: &str) -> bool {
    name.split_once('-').is_some_and(|(hash, token)| {
        hash.len() == 64
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
            && !token.is_empty()
            && token.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The spool that this process writes.
#[derive(Debug)]
pub(crate) struct Spool {
    /// Locked while the run goes on.
    file: File,
    length: u64,
}

impl Spool {
    /// Adds a record. `record` begins with room for its [`HEAD`].
    pub(crate) fn add(&mut self, stream: Stream, record: &mut [u8]) -> io::Result<()> {
        let length = u32::try_from(record.len() - HEAD).expect("a record is at most a chunk");
        record[0] = stream as u8;
        record[1..HEAD].copy_from_slice(&length.to_le_bytes());
        // A reader copes with a part of it, so that the part that fits is of use when the disk is full.
        let mut rest = &*record;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.length += written as u64;
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Its length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

/// Splits the bytes of a spool into the pieces of its streams, in whatever portions they come.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    head: [u8; HEAD],
    /// How much of the head is there.
    have: usize,
    /// How much of the record's bytes is to come.
    left: usize,
}

impl Splitter {
    /// Hands over the pieces. `false`: these are not the bytes of a spool.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(Stream, &[u8])) -> bool {
        while !bytes.is_empty() {
            if self.have < HEAD {
                let more = bytes.len().min(HEAD - self.have);
                self.head[self.have..self.have + more].copy_from_slice(&bytes[..more]);
                self.have += more;
                bytes = &bytes[more..];
                if self.have < HEAD {
                    return true;
                }
                let [_, a, b, c, d] = self.head;
                self.left = u32::from_le_bytes([a, b, c, d]) as usize;
            }
            let Some(stream) = Stream::of(self.head[0]) else { return false };
            let piece = bytes.len().min(self.left);
            if piece > 0 {
                take(stream, &bytes[..piece]);
            }
            self.left -= piece;
            bytes = &bytes[piece..];
            if self.left == 0 {
                self.have = 0;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in_whatever_the_portions() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("spool");
        let mut spool = Spool { file: File::create(&path).expect("it is new"), length: 0 };
        let given: [(Stream, &[u8]); 4] =
            [(Stream::Out, b"one\n"), (Stream::Err, b"\0\xff"), (Stream::Out, b""), (Stream::Out, b"two")];
        for (stream, bytes) in given {
            let mut record = vec![0; HEAD];
            record.extend_from_slice(bytes);
            spool.add(stream, &mut record).expect("there is room");
        }
        let bytes = fs::read(&path).expect("it was written");
        assert_eq!(spool.length(), bytes.len() as u64);
        for portion in 1..=bytes.len() {
            let mut splitter = Splitter::default();
            let (mut out, mut err) = (Vec::new(), Vec::new());
            for part in bytes.chunks(portion) {
                let is_spool = splitter.feed(part, |stream, piece| match stream {
                    Stream::Out => out.extend_from_slice(piece),
                    Stream::Err => err.extend_from_slice(piece),
                    Stream::Landing => unreachable!("none was given"),
                });
                assert!(is_spool);
            }
            assert_eq!((&out[..], &err[..]), (&b"one\ntwo"[..], &b"\0\xff"[..]), "portions of {portion}");
        }
    }

    #[test]
    fn only_spools_are_swept() {
        let hash = KeyLocks::file_name(b"k");
        assert!(is_name(&format!("{hash}-00000000000000000042")));
        for other in ["doors", &hash, &format!("{hash}-"), &format!("{hash}-../x"), "notes-1"] {
            assert!(!is_name(other), "{other}");
        }
    }
}
