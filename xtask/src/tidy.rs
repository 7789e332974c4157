//! `cargo xtask tidy`: what the compiler does not see and a reader would trip over.
//!
//! Each check is a pure function from the files (path and text) to the problems that it finds; each problem says what to do.
//! Nothing here reads a clock, the network or git.

mod code;
mod layout;
mod links;
mod markdown;
mod rust_text;
mod white_space;

use std::fmt;
use std::fs;
use std::path::Path;

/// A file of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// Relative to the repository, with `/` on every platform.
    pub(crate) path: String,
    /// `None` when it is not UTF-8.
    pub(crate) text: Option<String>,
}

impl File {
    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// Whether one of the folders on the way to it has this name.
    fn is_below(&self, folder: &str) -> bool {
        self.folders().any(|name| name == folder)
    }

    fn folders(&self) -> impl Iterator<Item = &str> {
        let folders = self.path.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').filter(|name| !name.is_empty())
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Something to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

impl Problem {
    fn of(file: &File, message: impl Into<String>) -> Problem {
        Problem::at(file, 0, message)
    }

    fn at(file: &File, line: usize, message: impl Into<String>) -> Problem {
        Problem { path: file.path.clone(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { path, line, message } = self;
        match line {
            0 => write!(f, "{path}: {message}"),
            line => write!(f, "{path}:{line}: {message}"),
        }
    }
}

type Check = fn(&[File]) -> Vec<Problem>;

const CHECKS: [Check; 12] = [
    layout::sizes,
    layout::names,
    layout::readmes,
    layout::decision_records,
    layout::example_names,
    code::unsafe_places,
    code::ignored_tests,
    code::unchecked_doc_examples,
    code::sleeping_tests,
    links::links,
    links::paths_in_code_spans,
    white_space::white_space,
];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let files = files(root)?;
    let mut problems: Vec<Problem> = CHECKS.iter().flat_map(|check| check(&files)).collect();
    if problems.is_empty() {
        println!("tidy: {} files are in order", files.len());
        return Ok(());
    }
    problems.sort();
    for problem in &problems {
        eprintln!("{problem}");
    }
    Err(format!(
        "tidy found {} to put right; to repeat it:\n    cargo xtask tidy",
        match problems.len() {
            1 => "1 thing".to_owned(),
            more => format!("{more} things"),
        }
    ))
}

/// All files below `root`, sorted, without what git and cargo keep there. Symbolic links are not followed.
pub(crate) fn files(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<(), String> {
    let failed = |path: &Path, error| format!("cannot read {}: {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let entry = entry.map_err(|error| failed(folder, error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| failed(&path, error))?;
        if kind.is_dir() {
            if name != ".git" && name != "target" {
                collect(&path, &format!("{prefix}{name}/"), files)?;
            }
        } else if kind.is_file() {
            let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
            files.push(File { path: format!("{prefix}{name}"), text: String::from_utf8(bytes).ok() });
        }
    }
    Ok(())
}

/// What the checks' own tests make their bad input with.
#[cfg(test)]
mod sample {
    use super::{Check, File};

    pub(super) fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: Some(text.to_owned()) }
    }

    /// The problems as they are printed.
    pub(super) fn found(check: Check, files: &[File]) -> Vec<String> {
        check(files).iter().map(ToString::to_string).collect()
    }

    /// Exactly one problem, which begins with `place` and says `part`.
    #[track_caller]
    pub(super) fn assert_one(check: Check, files: &[File], place: &str, part: &str) {
        let found = found(check, files);
        let [problem] = found.as_slice() else {
            panic!("one problem was expected: {found:#?}");
        };
        assert!(problem.starts_with(place), "{problem}");
        assert!(problem.contains(part), "{problem}");
    }

    #[track_caller]
    pub(super) fn assert_none(check: Check, files: &[File]) {
        assert_eq!(found(check, files), Vec::<String>::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_hidden_files_and_leaves_out_git_and_target() {
        let root = std::env::temp_dir().join(format!("xtask-tidy-walk-{}", std::process::id()));
        for folder in [".ci", ".git", "a/src", "a/target/debug"] {
            fs::create_dir_all(root.join(folder)).expect("a temporary folder can be made");
        }
        for name in [".ci/run", ".git/config", "a/src/lib.rs", "a/target/debug/x.rs"] {
            fs::write(root.join(name), "text\n").expect("a temporary file can be written");
        }
        fs::write(root.join("a/binary"), [0xff, 0xfe]).expect("a temporary file can be written");
        let found = files(&root);
        fs::remove_dir_all(&root).expect("it is ours");
        let found = found.expect("all can be read");
        let paths: Vec<&str> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "a/binary", "a/src/lib.rs"]);
        assert_eq!(found[1].text, None);
    }

    #[test]
    fn a_problem_is_printed_so_that_an_editor_finds_it() {
        let file = sample::file("a/src/lib.rs", "");
        assert_eq!(Problem::at(&file, 7, "mend it").to_string(), "a/src/lib.rs:7: mend it");
        assert_eq!(Problem::of(&file, "mend it").to_string(), "a/src/lib.rs: mend it");
    }
}
