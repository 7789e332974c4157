//! Where things are, what they are called, and how large they grow.

use std::collections::BTreeMap;

use super::{File, Problem};
use crate::examples;

/// The most lines of a Rust file, by the folder that it is in. A file of 400 lines asks to be two already.
const MOST_LINES: [(&str, usize); 2] = [("src", 500), ("tests", 800)];

pub(super) fn sizes(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let limit = MOST_LINES.iter().find(|(folder, _)| file.is_below(folder));
        let lines = file.text().lines().count();
        if let Some((folder, most)) = limit
            && lines > *most
        {
            problems.push(Problem::of(
                file,
                format!(
                    "{lines} lines, and {most} are the most in {folder}/: split it by what its parts are responsible for"
                ),
            ));
        }
    }
    problems
}

/// Names that say nothing about what is inside, so that everything ends up there.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "helpers", "helper", "manager", "imp"];

pub(super) fn names(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        let stem = file.name().split('.').next().unwrap_or_default();
        for name in file.folders().chain([stem]) {
            if EMPTY_NAMES.contains(&name) {
                problems.push(Problem::of(
                    file,
                    format!(
                        "{name:?} says nothing: name it after what it defines, or move each part to where it is used"
                    ),
                ));
            }
        }
    }
    problems
}

const INCLUDES_README: &str = r#"#![doc = include_str!("../README.md")]"#;

pub(super) fn readmes(files: &[File]) -> Vec<Problem> {
    let at = |path: &str| files.iter().find(|file| file.path == path);
    let mut problems = Vec::new();
    for manifest in files {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        let readme = format!("{folder}/README.md");
        if at(&readme).is_none_or(|file| file.text().trim().is_empty()) {
            problems.push(Problem::of(
                manifest,
                format!("write {readme}: what it is, an example, what it promises, what it does not do"),
            ));
        }
        let root = at(&format!("{folder}/src/lib.rs")).or_else(|| at(&format!("{folder}/src/main.rs")));
        if let Some(root) = root
            && !root.text().lines().any(|line| line == INCLUDES_README)
        {
            problems.push(Problem::of(
                root,
                format!("begin it with `{INCLUDES_README}`, so that the example in there is compiled and run"),
            ));
        }
    }
    problems
}

/// Decision records are `NNNN-title.md`, counted without a gap: a gap looks like a record that was taken back in silence.
pub(super) fn decision_records(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut folders: BTreeMap<&str, Vec<(u32, &File)>> = BTreeMap::new();
    for file in files {
        let Some((folder, name)) = file.path.rsplit_once('/') else {
            continue;
        };
        if !folder.ends_with("/docs/adr") || name == "README.md" {
            continue;
        }
        match number_of_record(name) {
            Some(number) => folders.entry(folder).or_default().push((number, file)),
            None => problems.push(Problem::of(
                file,
                "name it NNNN-title.md: four digits, a hyphen, and the decision in lower case with hyphens",
            )),
        }
    }
    for records in folders.values_mut() {
        records.sort_by_key(|(number, _)| *number);
        for ((number, file), expected) in records.iter().zip(1..) {
            if *number != expected {
                problems.push(Problem::of(
                    file,
                    format!(
                        "it is number {expected} in the order of the folder: number the records from 0001 without gaps"
                    ),
                ));
                break;
            }
        }
    }
    problems
}

fn number_of_record(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let well_named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if number.len() != 4 || title.is_empty() || !title.chars().all(well_named) {
        return None;
    }
    number.parse().ok()
}

/// `cargo run --example NAME` at the top level must find one.
pub(super) fn example_names(files: &[File]) -> Vec<Problem> {
    let mut seen = BTreeMap::new();
    let mut problems = Vec::new();
    for example in examples::find(files.iter().map(|file| file.path.as_str())) {
        if let Some(first) = seen.insert(example.name, example.path) {
            problems.push(Problem {
                path: example.path.to_owned(),
                line: 0,
                message: format!("rename it: {first} has the same name, and `cargo run --example` must find one"),
            });
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::sample::{assert_none, assert_one, file, found};
    use super::*;

    #[test]
    fn a_file_that_grew_too_long_is_found() {
        let long = |path, lines| file(path, &"//\n".repeat(lines));
        assert_none(sizes, &[long("a/src/b.rs", 500), long("a/tests/it/b.rs", 800)]);
        assert_one(sizes, &[long("a/src/b.rs", 501)], "a/src/b.rs:", "501 lines, and 500");
        assert_one(sizes, &[long("a/tests/it/b.rs", 801)], "a/tests/it/b.rs:", "801 lines, and 800");
        assert_none(sizes, &[long("a/README.md", 5_000)]);
    }

    #[test]
    fn a_name_that_says_nothing_is_found_in_files_and_folders() {
        assert_one(names, &[file("a/src/utils.rs", "")], "a/src/utils.rs:", "\"utils\" says nothing");
        assert_one(names, &[file("a/tests/common/mod.rs", "")], "a/tests/common/mod.rs:", "\"common\"");
        assert_none(names, &[file("a/src/common_name.rs", ""), file("a/src/impulse.rs", "")]);
    }

    #[test]
    fn a_crate_without_a_readme_is_found() {
        let root = file("a/src/lib.rs", &format!("{INCLUDES_README}\n"));
        let manifest = file("a/Cargo.toml", "");
        let readme = file("a/README.md", "# a\n");
        assert_none(readmes, &[manifest.clone(), root.clone(), readme.clone()]);
        assert_one(readmes, &[manifest.clone(), root.clone()], "a/Cargo.toml:", "write a/README.md");
        let empty = file("a/README.md", "\n");
        assert_one(readmes, &[manifest.clone(), root, empty], "a/Cargo.toml:", "write a/README.md");
        let silent = file("a/src/main.rs", "//! No README.\n");
        assert_one(readmes, &[manifest, silent, readme], "a/src/main.rs:", "begin it with");
    }

    #[test]
    fn decision_records_are_counted_without_gaps() {
        let record = |name: &str| file(&format!("a/docs/adr/{name}"), "# x\n");
        assert_none(decision_records, &[record("0001-lock-first.md"), record("0002-json.md"), record("README.md")]);
        assert_one(
            decision_records,
            &[record("0001-a.md"), record("0003-b.md"), record("0004-c.md")],
            "a/docs/adr/0003-b.md:",
            "it is number 2",
        );
        assert_one(
            decision_records,
            &[record("0001-a.md"), record("0001-b.md")],
            "a/docs/adr/0001-b.md:",
            "it is number 2",
        );
        for wrong in ["1-a.md", "0001.md", "0001-A b.md", "notes.md", "0001-a.txt"] {
            assert_one(decision_records, &[record(wrong)], "a/docs/adr/", "name it NNNN-title.md");
        }
    }

    #[test]
    fn two_examples_of_one_name_are_found() {
        let files = [file("a/examples/worker.rs", ""), file("b/examples/worker/main.rs", "")];
        assert_one(example_names, &files, "b/examples/worker/main.rs:", "a/examples/worker.rs");
        assert_eq!(found(example_names, &files[..1]).len(), 0);
    }
}
