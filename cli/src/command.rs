//! The command that a caller names.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Command;

use crate::exit;

/// The longest label, in characters.
const LABEL: usize = 100;

/// Ready to be started, with this process's own directory, environment and streams.
pub(crate) fn command(words: &[OsString]) -> Command {
    // Clap wants one word at least.
    let (program, args) =
        words.split_first().map_or((OsStr::new(""), &[][..]), |(program, args)| (program.as_os_str(), args));
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// The command in a few printable words: what others are told when they wait.
pub(crate) fn label(words: &[OsString]) -> String {
    let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    shortened(&line.join(" "), LABEL)
}

/// Printable and short, for a message.
pub(crate) fn shortened(text: &str, length: usize) -> String {
    let mut short: String = text
        .chars()
        .take(length)
        .flat_map(|sign| if sign.is_control() { sign.escape_default().collect() } else { vec![sign] })
        .collect();
    if text.chars().nth(length).is_some() {
        short.push('…');
    }
    short
}

/// A key, quoted, printable and short.
pub(crate) fn quoted(key: &str) -> String {
    format!("\"{}\"", shortened(key, 60))
}

/// How a command that cannot be started is told, and with which code, as in sh.
pub(crate) fn not_started(words: &[OsString], error: &io::Error) -> (String, i32) {
    let program = words.first().map(|word| shortened(&word.to_string_lossy(), 200)).unwrap_or_default();
    match error.kind() {
        io::ErrorKind::NotFound => (format!("cannot find {program}: {error}"), exit::NOT_FOUND),
        _ => (format!("cannot execute {program}: {error}"), exit::NOT_EXECUTABLE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_short_printable_line() {
        let words = ["make", "all\n\x1b[2J", &"x".repeat(500)].map(OsString::from);
        let label = label(&words);
        assert!(label.starts_with("make all\\n\\u{1b}[2J xxx") && label.ends_with('…'), "{label}");
        assert!(label.chars().count() < 150 && !label.chars().any(char::is_control));
    }
}
