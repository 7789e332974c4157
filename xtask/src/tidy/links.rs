//! Links between the files of the repository, and paths that its pages name.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::Markdown;
use super::{File, Problem};

/// Every relative link leads to a file or folder of the repository, and its fragment to a heading there.
pub(super) fn links(files: &[File]) -> Vec<Problem> {
    let places = places(files);
    let pages: BTreeMap<&str, Markdown<'_>> =
        pages(files).map(|file| (file.path.as_str(), Markdown::of(file.text()))).collect();
    let mut problems = Vec::new();
    for file in pages_of(files, &pages) {
        let (file, page) = file;
        for (line, target) in &page.links {
            if is_elsewhere(target) || (is_crate_page(file, files) && is_rust_path(target)) {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let resolved = match path {
                "" => Some(file.path.clone()),
                path => resolve(&file.path, path),
            };
            let Some(resolved) = resolved.filter(|resolved| places.contains(resolved.as_str())) else {
                problems.push(Problem::at(
                    file,
                    *line,
                    format!("the link to {target:?} leads to no file of the repository: mend its path or remove it"),
                ));
                continue;
            };
            let lost = |page: &Markdown<'_>| !page.anchors.iter().any(|anchor| anchor == fragment);
            if !fragment.is_empty() && pages.get(resolved.as_str()).is_some_and(lost) {
                problems.push(Problem::at(
                    file,
                    *line,
                    format!("{resolved} has no heading for #{fragment}: mend the link to {target:?}"),
                ));
            }
        }
    }
    problems
}

/// A path in backticks that begins in a folder of the repository is a claim that it exists.
pub(super) fn paths_in_code_spans(files: &[File]) -> Vec<Problem> {
    let places = places(files);
    let crates: Vec<&str> = files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml")).collect();
    let mut problems = Vec::new();
    for file in pages(files) {
        for (line, span) in Markdown::of(file.text()).spans {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            let (folder, _) = span.split_once('/').unwrap_or_default();
            let named = span.trim_end_matches('/');
            if crates.contains(&folder) && span.chars().all(plain) && !places.contains(named) {
                problems.push(Problem::at(
                    file,
                    line,
                    format!("there is no {span:?} in the repository: name the file that took its place"),
                ));
            }
        }
    }
    problems
}

fn pages(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.is_markdown())
}

fn pages_of<'a, 'b>(
    files: &'a [File],
    pages: &'b BTreeMap<&str, Markdown<'a>>,
) -> impl Iterator<Item = (&'a File, &'b Markdown<'a>)> {
    files.iter().filter_map(|file| Some((file, pages.get(file.path.as_str())?)))
}

/// All files, and the folders that they are in. The top folder is the empty path.
fn places(files: &[File]) -> BTreeSet<&str> {
    let mut places = BTreeSet::from([""]);
    for file in files {
        places.insert(file.path.as_str());
        places.extend(file.path.match_indices('/').map(|(at, _)| &file.path[..at]));
    }
    places
}

fn is_elsewhere(target: &str) -> bool {
    ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// Whether `file` is the README that a crate's root includes: rustdoc resolves the Rust paths in it, and denies broken ones.
fn is_crate_page(file: &File, files: &[File]) -> bool {
    file.path.strip_suffix("/README.md").is_some_and(|folder| {
        let manifest = format!("{folder}/Cargo.toml");
        files.iter().any(|file| file.path == manifest)
    })
}

/// `crate::Lease`, `Fence::admit`, `struct@Epoch`, `crate#errors`: no file has such a name here.
fn is_rust_path(target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let plain = |c: char| c.is_alphanumeric() || "_:@!()".contains(c);
    !path.is_empty() && path.chars().all(plain)
}

/// The path, relative to the repository, that `target` means on the page `from`. `None` when it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{assert_none, assert_one, file};
    use super::*;

    fn repository(page: &str, text: &str) -> Vec<File> {
        vec![
            file(page, text),
            file("LICENSE", ""),
            file("ARCHITECTURE.md", "# Rooms and arrows\n"),
            file("a/Cargo.toml", ""),
            file("a/src/lib.rs", ""),
            file("a/docs/adr/0001-b.md", "# B\n"),
        ]
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let top = "[a](a/src/lib.rs) [b](a/) [c](./LICENSE) [d](ARCHITECTURE.md#rooms-and-arrows) [e](#top) [f](https://x.y)\n# Top\n";
        assert_none(links, &repository("README.md", top));
        let inner =
            "[a](../LICENSE) [b](src/lib.rs) [c](crate::Lease) [d](Fence::admit) [e]\n\n[e]: docs/adr/0001-b.md\n";
        assert_none(links, &repository("a/README.md", inner));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        for broken in
            ["gone.md", "a/src/gone.rs", "../outside.md", "/LICENSE", "Gone", "#nowhere", "ARCHITECTURE.md#nowhere"]
        {
            let text = format!("x\n[a]({broken})\n");
            assert_one(links, &repository("README.md", &text), "README.md:2:", broken);
            let text = format!("x\n\n[a]: {broken}\n");
            assert_one(links, &repository("README.md", &text), "README.md:3:", broken);
        }
        // In a crate's page rustdoc looks after the Rust paths, and nobody after the files.
        assert_one(links, &repository("a/README.md", "[a](LICENSE.txt)\n"), "a/README.md:1:", "no file");
    }

    #[test]
    fn a_path_in_backticks_must_exist() {
        let page = |span: &str| repository("ARCHITECTURE.md", &format!("x\n`{span}`\n"));
        assert_one(paths_in_code_spans, &page("a/src/gone.rs"), "ARCHITECTURE.md:2:", "a/src/gone.rs");
        for fine in ["a/src/lib.rs", "a/src/", "a", "b/src/lib.rs", "a/src/{lib,b}.rs", "a/<name>", "x/y"] {
            assert_none(paths_in_code_spans, &page(fine));
        }
    }
}
