//! What happened, in the order in which it happened, whoever says so: one line for each start and end of a work.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// The file. Each line is one `write` on a descriptor opened with `O_APPEND`, so the kernel orders the lines of all processes.
#[derive(Clone, Debug)]
pub(crate) struct Journal(pub(crate) PathBuf);

/// What the journal says of a group's flights.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// Who ran which flight.
    leaders: BTreeMap<(String, u64), u32>,
    /// The tokens of each key, in the order of their starts.
    tokens: BTreeMap<String, Vec<u64>>,
}

impl Journal {
    fn append(&self, line: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.0).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn start(&self, key: &str, token: u64) {
        self.append(&format!("start {key} {token} {}", std::process::id()));
    }

    pub(crate) fn end(&self, key: &str, token: u64) {
        self.append(&format!("end {key} {token} {}", std::process::id()));
    }

    /// The work was told that it is not alone any more: what others start from now on is no fault.
    pub(crate) fn lost(&self, key: &str, token: u64) {
        self.append(&format!("lost {key} {token} {}", std::process::id()));
    }

    /// The process runs no more: what it had started has ended.
    pub(crate) fn killed(&self, pid: u32) {
        self.append(&format!("kill {pid}"));
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }

    /// Reads it all, and fails at the first line that breaks a promise.
    pub(crate) fn check(&self) -> Flights {
        let text = self.text();
        let mut flights = Flights::default();
        let mut running: BTreeMap<&str, (u64, u32)> = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            let broken = |what: &str| panic!("line {} of the journal, {line:?}: {what}\n{text}", number + 1);
            match words[..] {
                ["start", key, token, pid] => {
                    let (token, pid): (u64, u32) = (token.parse().unwrap(), pid.parse().unwrap());
                    if let Some((other, by)) = running.insert(key, (token, pid)) {
                        broken(&format!("process {by} still runs flight {other} of the key"));
                    }
                    let tokens = flights.tokens.entry(key.to_owned()).or_default();
                    if tokens.last().is_some_and(|last| *last >= token) {
                        broken("its token is not greater than that of the flight before");
                    }
                    tokens.push(token);
                    flights.leaders.insert((key.to_owned(), token), pid);
                }
                ["end" | "lost", key, token, pid] => {
                    let this = (token.parse().unwrap(), pid.parse().unwrap());
                    running.retain(|of, flight| *of != key || *flight != this);
                }
                ["kill", pid] => {
                    let pid: u32 = pid.parse().unwrap();
                    running.retain(|_, (_, by)| *by != pid);
                }
                _ => broken("this is no line of a journal"),
            }
        }
        flights
    }
}

impl Flights {
    /// How often the key's work began.
    pub(crate) fn runs(&self, key: &str) -> usize {
        self.tokens.get(key).map_or(0, Vec::len)
    }

    /// Who ran this flight.
    pub(crate) fn leader(&self, key: &str, token: u64) -> Option<u32> {
        self.leaders.get(&(key.to_owned(), token)).copied()
    }

    /// How many processes ran works of the key.
    pub(crate) fn leaders(&self, key: &str) -> usize {
        let pids: std::collections::BTreeSet<u32> =
            self.leaders.iter().filter(|((of, _), _)| of == key).map(|(_, pid)| *pid).collect();
        pids.len()
    }
}

mod tests {
    use super::Journal;

    fn check(lines: &[&str]) {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal(home.path().join("journal"));
        lines.iter().for_each(|line| journal.append(line));
        journal.check();
    }

    #[test]
    fn flights_one_after_the_other_pass() {
        check(&[
            "start k 1 7",
            "start l 1 8",
            "end k 1 7",
            "start k 2 8",
            "kill 8",
            "start k 3 9",
            "lost k 3 9",
            "start k 4 7",
        ]);
    }

    #[test]
    #[should_panic(expected = "process 7 still runs flight 1")]
    fn a_second_start_is_found() {
        check(&["start k 1 7", "start k 2 8"]);
    }

    #[test]
    #[should_panic(expected = "process 7 still runs flight 1")]
    fn another_flights_end_is_no_end() {
        check(&["start k 1 7", "end k 2 7", "kill 8", "start k 3 8"]);
    }

    #[test]
    #[should_panic(expected = "its token is not greater")]
    fn a_token_that_does_not_grow_is_found() {
        check(&["start k 2 7", "end k 2 7", "start k 2 8"]);
    }
}
