//! What Rust code may do only in certain places, or only with a reason.

use super::rust_text::{code_of, has_word, lines_with_word};
use super::{File, Problem};

/// Where `unsafe` belongs: beside the system calls of a platform.
const PLATFORM_FILES: [&str; 2] = ["unix.rs", "windows.rs"];

/// Other files with `unsafe`, each with the reason.
const UNSAFE_ELSEWHERE: [(&str, &str); 4] = [
    ("key-lock/tests/it/access.rs", "a child becomes another user"),
    ("key-lock/tests/it/fork.rs", "forks without exec, which the library must survive"),
    ("key-lock/tests/it/lying_kernel.rs", "makes the kernel answer lock requests wrongly"),
    ("single-flight/tests/it/fork.rs", "forks without exec, which the library must refuse to follow"),
];

pub(super) fn unsafe_places(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let excused = UNSAFE_ELSEWHERE.iter().any(|(path, _)| *path == file.path);
        if excused || PLATFORM_FILES.contains(&file.name()) {
            continue;
        }
        let code = code_of(file.text());
        problems.extend(lines_with_word(&code, "unsafe").map(|line| {
            Problem::at(
                file,
                line,
                "move the `unsafe` into the unix.rs or windows.rs beside it, or list this file with a reason in \
                 xtask/src/tidy/code.rs",
            )
        }));
    }
    problems
}

pub(super) fn ignored_tests(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = code_of(file.text());
        for (at, attribute) in attributes(&code) {
            let ignores = attribute.starts_with("#[ignore")
                || (attribute.starts_with("#[cfg_attr") && has_word(attribute, "ignore"));
            // The reason is in a string, which the code has no more; the offsets are the same.
            let whole = file.text().get(at..at + attribute.len()).unwrap_or_default();
            if ignores && !whole.contains("cargo ") {
                problems.push(Problem::at(
                    file,
                    line_of(&code, at),
                    "run the test always; or give a reason that names the command which runs it: #[ignore = \"…: cargo …\"]",
                ));
            }
        }
    }
    problems
}

/// The outer attributes in `code`, each with its offset.
fn attributes(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices("#[").map(|(at, _)| {
        let mut depth = 0_i32;
        let end = code[at..].find(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == ']' && depth == 0
        });
        (at, &code[at..end.map_or(code.len(), |end| at + end + 1)])
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// An example in the docs that is marked `ignore` is shown and never tried.
pub(super) fn unchecked_doc_examples(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() || file.is_markdown()) {
        for (index, line) in file.text().lines().enumerate() {
            let line = line.trim_start();
            let text = match file.is_rust() {
                true => match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
                    Some(text) => text.trim_start(),
                    None => continue,
                },
                false => line,
            };
            if text.starts_with("```") && has_word(text, "ignore") {
                problems.push(Problem::at(
                    file,
                    index + 1,
                    "let the example be compiled (`no_run` compiles it and does not run it), or mark it `text`",
                ));
            }
        }
    }
    problems
}

/// Waiting for time to pass is not waiting for what was to happen.
pub(super) fn sleeping_tests(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.is_below("tests")) {
        let code = code_of(file.text());
        let lines: Vec<&str> = file.text().lines().collect();
        for (index, line) in code.lines().enumerate() {
            let sleeps = ["sleep", "sleep_until"]
                .iter()
                .any(|call| line.match_indices(call).any(|(at, _)| is_call(line, at, call)));
            let before = index.checked_sub(1).map_or("", |before| lines[before]);
            if sleeps && !has_reason(lines[index]) && !has_reason(before) {
                problems.push(Problem::at(
                    file,
                    index + 1,
                    "wait for the event itself, with a deadline; or say on this line or the one above why time must pass: \
                     `// tidy: …`",
                ));
            }
        }
    }
    problems
}

/// Whether `name` at `at` is the whole name of a function that is called there, and not defined.
fn is_call(line: &str, at: usize, name: &str) -> bool {
    let before = line[..at].trim_end();
    has_word(&line[at..], name)
        && !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
        && line[at + name.len()..].starts_with('(')
        && !before.ends_with("fn")
}

fn has_reason(line: &str) -> bool {
    line.split_once("// tidy: ").is_some_and(|(_, reason)| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::sample::{assert_none, assert_one, file};
    use super::*;

    #[test]
    fn unsafe_is_found_outside_of_the_platform_files() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        assert_one(unsafe_places, &[file("a/src/lib.rs", text)], "a/src/lib.rs:2:", "move the `unsafe`");
        assert_none(unsafe_places, &[file("a/src/unix.rs", text), file("a/src/b/windows.rs", text)]);
        let words = "#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";\n";
        assert_none(unsafe_places, &[file("a/src/lib.rs", words)]);
    }

    #[test]
    fn an_ignored_test_needs_a_command() {
        let ignored = |attribute: &str| [file("a/src/lib.rs", &format!("\n{attribute}\nfn t() {{}}\n"))];
        for bad in [
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "#[cfg_attr(windows, ignore)]",
            "#[cfg_attr(\n    windows,\n    ignore = \"never\"\n)]",
        ] {
            assert_one(ignored_tests, &ignored(bad), "a/src/lib.rs:2:", "names the command");
        }
        for good in [
            "#[ignore = \"takes an hour: cargo test -p a -- --ignored\"]",
            "#[test]",
            "// #[ignore]",
            "#[cfg_attr(windows, allow(dead_code))]",
        ] {
            assert_none(ignored_tests, &ignored(good));
        }
    }

    #[test]
    fn a_doc_example_that_nothing_compiles_is_found() {
        let one = |path, text| [file(path, text)];
        assert_one(unchecked_doc_examples, &one("a/README.md", "x\n```rust,ignore\n"), "a/README.md:2:", "no_run");
        assert_one(unchecked_doc_examples, &one("a/src/b.rs", "/// ```ignore\n"), "a/src/b.rs:1:", "no_run");
        assert_one(unchecked_doc_examples, &one("a/src/b.rs", "    //! ```ignore\n"), "a/src/b.rs:1:", "no_run");
        assert_none(unchecked_doc_examples, &one("a/README.md", "```rust,no_run\n```text\nignore\n"));
        assert_none(unchecked_doc_examples, &one("a/src/b.rs", "let a = \"```ignore\";\n"));
    }

    #[test]
    fn a_test_that_sleeps_needs_a_reason() {
        let sleeps = |line: &str| [file("a/tests/it/b.rs", &format!("fn f() {{\n{line}\n}}\n"))];
        for bad in [
            "    thread::sleep(TIME);",
            "    std::thread::sleep(TIME); // gives it time",
            "    tokio::time::sleep(TIME).await;",
            "    sleep(TIME);",
            "    sleep_until(TIME).await;",
            "    thread::sleep(TIME); // tidy: ",
        ] {
            assert_one(sleeping_tests, &sleeps(bad), "a/tests/it/b.rs:2:", "// tidy: …");
        }
        for good in [
            "    thread::sleep(TIME); // tidy: the pause between two looks, bounded by DEADLINE",
            "    // tidy: the pause between two looks, bounded by DEADLINE\n    thread::sleep(TIME);",
            "    Command::new(\"sleep\").arg(\"60\");",
            "    // sleep(1)",
            "    fn sleep(time: Duration) {}",
            "    does_not_sleep(TIME);",
            "    use std::thread::sleep;",
        ] {
            assert_none(sleeping_tests, &sleeps(good));
        }
        assert_none(sleeping_tests, &[file("a/src/b.rs", "thread::sleep(TIME);\n")]);
    }
}
