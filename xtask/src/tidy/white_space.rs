//! White space that nobody sees, until a diff shows it.

use super::{File, Problem};

/// The kinds of files that people write here. Others (transcripts, corpora) are left alone.
const CHECKED: [&str; 6] = [".rs", ".md", ".toml", ".yml", ".sh", ".ci/run"];

pub(super) fn white_space(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        if !CHECKED.iter().any(|end| file.path.ends_with(end)) {
            continue;
        }
        let Some(text) = &file.text else {
            problems.push(Problem::of(file, "it is not UTF-8: save it as UTF-8"));
            continue;
        };
        // Not `lines()`, which takes the carriage return off.
        for (index, line) in text.split('\n').enumerate() {
            if line.contains('\t') {
                problems.push(Problem::at(file, index + 1, "replace the tab by spaces"));
            }
            if line.ends_with(char::is_whitespace) {
                problems.push(Problem::at(file, index + 1, "remove the white space at the end of the line"));
            }
        }
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            problems.push(Problem::of(file, "end the file with exactly one newline"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::sample::{assert_none, assert_one, file};
    use super::*;

    #[test]
    fn invisible_faults_are_found_where_they_are() {
        let one = |text: &str| [file("a/README.md", text)];
        assert_one(white_space, &one("a\n\tb\n"), "a/README.md:2:", "tab");
        assert_one(white_space, &one("a\nb \nc\n"), "a/README.md:2:", "at the end of the line");
        assert_one(white_space, &one("a\r\n"), "a/README.md:1:", "at the end of the line");
        assert_one(white_space, &one("a"), "a/README.md:", "exactly one newline");
        assert_one(white_space, &one("a\n\n"), "a/README.md:", "exactly one newline");
        assert_none(white_space, &one("a\n\nb\n"));
        assert_none(white_space, &one(""));
    }

    #[test]
    fn a_text_that_is_not_utf_8_is_found_and_other_kinds_are_left_alone() {
        let broken = |path: &str| File { path: path.to_owned(), text: None };
        assert_one(white_space, &[broken("a/src/lib.rs")], "a/src/lib.rs:", "UTF-8");
        assert_none(white_space, &[broken("a/corpus/1"), file("a/x.transcript", "a \t")]);
    }
}
