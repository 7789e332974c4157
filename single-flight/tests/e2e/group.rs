//! The processes of a scenario, their directory and their journal.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flight_key_lock::{KeyLocks, LocalDirectory};
use tempfile::TempDir;

use crate::journal::{Flights, Journal};
use crate::member::Member;

pub(crate) struct Group {
    home: TempDir,
    journal: Journal,
    members: Mutex<Vec<Member>>,
}

impl Group {
    pub(crate) fn new() -> Group {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal(home.path().join("journal"));
        Group { home, journal, members: Mutex::default() }
    }

    /// The directory of the flights. The journal is not in it.
    pub(crate) fn directory(&self) -> PathBuf {
        self.home.path().join("flights")
    }

    /// A place for a file of the scenario's own.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Starts a process, and returns when it has opened the directory.
    pub(crate) fn member(&self) -> Member {
        let member = self.start();
        member.hear("ready");
        member
    }

    /// Starts some processes at once.
    pub(crate) fn members<const N: usize>(&self) -> [Member; N] {
        let members = std::array::from_fn(|_| self.start());
        members.iter().for_each(|member| drop(member.hear("ready")));
        members
    }

    fn start(&self) -> Member {
        let mut members = self.members.lock().unwrap();
        let errors = self.home.path().join(format!("errors-{}", members.len()));
        let member = Member::start(&self.directory(), &self.journal, errors);
        members.push(member.clone());
        member
    }

    /// The first process, which is the coordinator: it has called, and there was nobody else.
    pub(crate) fn coordinator(&self) -> Member {
        let member = self.member();
        member.calls("first", "first");
        assert_eq!(member.status().coordinator, member.pid());
        member
    }

    /// Checks the journal, and that every value that anybody got is that of the flight whose token came with it.
    pub(crate) fn check(&self) -> Flights {
        let flights = self.journal.check();
        for member in self.members.lock().unwrap().iter() {
            for line in member.heard() {
                let words: Vec<&str> = line.split(' ').collect();
                let ["landed", _, token, role, key, value] = words[..] else { continue };
                let token = token.parse().unwrap();
                let leader = flights.leader(key, token);
                let named = leader.map(|leader| crate::inside::value(key, token, leader, 0));
                assert!(
                    named.is_some_and(|named| value == named || value.starts_with(&format!("{named}/"))),
                    "process {} got the value of another flight: {line:?}",
                    member.pid()
                );
                // To join is possible within one process, too.
                assert!(role == "joined" || leader == Some(member.pid()), "process {}: {line:?}", member.pid());
            }
        }
        flights
    }

    /// Everything that its members have told, those included that are dead.
    pub(crate) fn members_heard(&self) -> Vec<String> {
        self.members.lock().unwrap().iter().flat_map(Member::heard).collect()
    }

    /// The key locks, as another program has them.
    pub(crate) fn key_locks(&self) -> KeyLocks {
        KeyLocks::new(&LocalDirectory::open(self.directory()).unwrap()).unwrap()
    }

    /// The key's lock file.
    pub(crate) fn lock_file(&self, key: &str) -> PathBuf {
        self.directory().join("execution-locks").join(KeyLocks::file_name(key.as_bytes()))
    }

    /// The epoch in the file.
    pub(crate) fn epoch(&self) -> u32 {
        std::fs::read_to_string(self.directory().join("flight.epoch")).unwrap().trim().parse().unwrap()
    }

    fn report(&self) {
        eprintln!("---- the group");
        for member in self.members.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
            eprintln!("{}", member.report());
        }
        eprintln!("---- the directory");
        list(&self.directory());
        eprintln!("---- the journal\n{}----", self.journal.text());
    }
}

fn list(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        eprintln!("{}: cannot be listed", directory.display());
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path);
            continue;
        }
        let text = std::fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let kind = entry.file_type().map(|kind| format!("{kind:?}")).unwrap_or_default();
        eprintln!("{} {:?} {kind}", path.display(), text.unwrap_or_default());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        }
    }
}
