//! Finds the examples of all packages, so that a new one is run by ci without being listed anywhere.

/// An example target, as cargo finds it by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Example<'a> {
    pub(crate) name: &'a str,
    pub(crate) path: &'a str,
}

/// The examples among `paths` (relative to the workspace, with `/`): `<package>/examples/<name>.rs` and
/// `<package>/examples/<name>/main.rs`.
pub(crate) fn find<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<Example<'a>> {
    let mut found: Vec<Example<'a>> = paths
        .into_iter()
        .filter_map(|path| {
            let parts: Vec<&str> = path.split('/').collect();
            let name = match parts.as_slice() {
                [_, "examples", file] => file.strip_suffix(".rs")?,
                [_, "examples", folder, "main.rs"] => folder,
                _ => return None,
            };
            Some(Example { name, path })
        })
        .collect();
    found.sort_by_key(|example| example.path);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_examples_and_their_modules_are_not() {
        let paths = [
            "lease/src/lib.rs",
            "lease/examples/README.md",
            "single-flight/examples/index_tree/main.rs",
            "single-flight/examples/index_tree/scene.rs",
            "fencing/examples/stale_writer.rs",
            "key-lock/tests/it/examples/not.rs",
        ];
        let names: Vec<_> = find(paths).into_iter().map(|example| example.name).collect();
        assert_eq!(names, ["stale_writer", "index_tree"]);
    }
}
