//! `cargo xtask ci`: every check, in the order in which a mistake is cheapest to find.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::examples::{self, Example};
use crate::step::Step;
use crate::{e2e, model, tidy};

/// For a step that compiles: an empty target folder on a slow machine with two cores.
const BUILD: Duration = Duration::from_secs(20 * 60);

/// For an example that is built already. The longest is meant to take 5 s.
const EXAMPLE: Duration = Duration::from_secs(60);

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let begun = Instant::now();
    let mut count = 0;
    let mut timed = |name: &str, line: &str, step: &mut dyn FnMut() -> Result<(), String>| {
        let begun = Instant::now();
        println!("\n== {name}: {line}");
        step()?;
        count += 1;
        println!("== {name}: passed in {:.1} s", begun.elapsed().as_secs_f64());
        Ok::<(), String>(())
    };

    let files = tidy::files(root)?;
    let examples = examples::find(files.iter().map(|file| file.path.as_str()));
    for step in before_tidy() {
        timed(&step.name, &step.command_line(), &mut || step.run(root))?;
    }
    timed("tidy", "cargo xtask tidy", &mut || tidy::run(root))?;
    for step in after_tidy(&examples) {
        timed(&step.name, &step.command_line(), &mut || step.run(root))?;
    }

    println!("\nci: all {count} steps passed in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn before_tidy() -> Vec<Step> {
    vec![Step::cargo("format", BUILD, ["fmt", "--all", "--check"])]
}

fn after_tidy(examples: &[Example<'_>]) -> Vec<Step> {
    let mut steps = vec![
        Step::cargo("clippy", BUILD, words("clippy --workspace --all-targets --all-features -- -D warnings")),
        // `--all-targets` leaves out a target with `test = false`.
        Step::cargo(
            "clippy of e2e and model",
            BUILD,
            words("clippy --workspace --test e2e --test model --all-features -- -D warnings"),
        ),
        Step::cargo("docs", BUILD, words("doc --workspace --no-deps --all-features"))
            .with_env("RUSTDOCFLAGS", "-D warnings"),
        // Unit, integration and doc tests of all packages.
        Step::cargo("tests", BUILD, words("test --workspace --all-features")),
        e2e::step(&[]),
        model::beginning(),
        // Apart from their runs, so that a run's limit does not measure the compiler.
        Step::cargo("examples", BUILD, words("build --release --examples")),
    ];
    steps.extend(examples.iter().map(|example| {
        Step::cargo(
            format!("example {}", example.name),
            EXAMPLE,
            // No `--package`: see `e2e::step`.
            ["run", "--quiet", "--release", "--example", example.name],
        )
    }));
    steps
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_that_is_found_is_run_with_a_bound_after_all_were_built() {
        let examples = examples::find(["a/examples/one.rs", "b/examples/two/main.rs"]);
        let lines: Vec<String> = after_tidy(&examples).iter().map(Step::command_line).collect();
        assert_eq!(
            lines[lines.len() - 3..],
            [
                "cargo build --release --examples",
                "cargo run --quiet --release --example one",
                "cargo run --quiet --release --example two",
            ],
        );
    }

    #[test]
    fn warnings_are_denied_in_code_and_docs() {
        let lines: Vec<String> = after_tidy(&[]).iter().map(Step::command_line).collect();
        let denied =
            |part: &str| lines.iter().filter(|line| line.contains(part)).all(|line| line.contains("-D warnings"));
        assert!(denied("clippy") && denied("cargo doc"), "{lines:#?}");
    }
}
