//! The files of the repository, read once and shared by all rules.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::rust_source::RustSource;

/// Folders with a leading dot that are the project's; all others are some tool's.
const DOT_FOLDERS: [&str; 3] = [".cargo", ".ci", ".github"];

/// One text file.
pub(super) struct File {
    /// From the repository's root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// The lexed form, for `.rs` files.
    pub(super) rust: Option<RustSource>,
}

impl File {
    fn new(path: String, text: String) -> Self {
        let rust = path.ends_with(".rs").then(|| RustSource::new(&text, is_test_path(&path)));
        Self { path, text, rust }
    }

    /// The lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// The repository: its text files, and the paths of everything in it.
pub(super) struct Tree {
    files: Vec<File>,
    /// Files of any kind and folders.
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the repository at `root`, without what `.gitignore` names.
    ///
    /// The folder is walked rather than git asked: the rules hold in an unpacked source archive as well.
    pub(super) fn load(root: &Path) -> anyhow::Result<Self> {
        let gitignore = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let ignored = Ignored::new(&gitignore);
        let mut tree = Self { files: Vec::new(), paths: BTreeSet::new() };
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(root.join(&folder)).with_context(|| format!("folder `{folder}`"))?;
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                // In a worktree of git's, `.git` is a file.
                if name == ".git" || ignored.covers(&path, &name) {
                    continue;
                }
                let is_folder = entry.file_type()?.is_dir();
                if is_folder && (!name.starts_with('.') || DOT_FOLDERS.contains(&name.as_str())) {
                    folders.push(path.clone());
                } else if !is_folder
                    // What is not UTF-8 is data, and no rule speaks of data.
                    && let Ok(text) = fs::read_to_string(entry.path())
                {
                    tree.files.push(File::new(path.clone(), text));
                }
                tree.paths.insert(path);
            }
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// A tree made of `(path, text)`.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self { files: Vec::new(), paths: BTreeSet::new() };
        for (path, text) in files {
            tree.files.push(File::new((*path).to_owned(), (*text).to_owned()));
            let folders = path.match_indices('/').map(|(end, _)| path[..end].to_owned());
            tree.paths.extend(folders.chain([(*path).to_owned()]));
        }
        tree
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The `.rs` files with their lexed form.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &RustSource)> {
        self.files.iter().filter_map(|file| file.rust.as_ref().map(|rust| (file, rust)))
    }

    /// The files whose name ends in `.md`.
    pub(super) fn documents(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    /// Whether a file or folder is at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.contains(path.trim_end_matches('/'))
    }
}

/// Code that is no part of the product: integration tests, the tests that a module keeps in a file of their own, and
/// examples, which measure what a crate costs.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "examples") || is_module_of_tests(path)
}

/// Whether `path` is `tests.rs` or `<something>_tests.rs`: the tests of the module beside it.
pub(super) fn is_module_of_tests(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// The part of `.gitignore` that we use: names, names at the root (`/target`) and suffixes (`*.profraw`).
struct Ignored<'a>(Vec<&'a str>);

impl<'a> Ignored<'a> {
    fn new(text: &'a str) -> Self {
        Self(text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect())
    }

    fn covers(&self, path: &str, name: &str) -> bool {
        self.0.iter().any(|pattern| {
            let pattern = pattern.trim_end_matches('/');
            match (pattern.strip_prefix('/'), pattern.strip_prefix('*')) {
                (Some(rooted), _) => path == rooted,
                (None, Some(suffix)) => name.ends_with(suffix),
                (None, None) => name == pattern,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gitignore_covers_names_rooted_paths_and_suffixes() {
        let ignored = Ignored::new("# built\n/target\nnode_modules\n*.profraw\n");
        for (path, covered) in [
            ("target", true),
            ("crates/target", false),
            ("dashboard/node_modules", true),
            ("a/b.profraw", true),
            ("README.md", false),
        ] {
            let name = path.rsplit('/').next().unwrap();
            assert_eq!(ignored.covers(path, name), covered, "{path}");
        }
    }

    #[test]
    fn folders_exist_as_well() {
        let tree = Tree::of(&[("docs/decisions/0001-a.md", "")]);
        for path in ["docs", "docs/", "docs/decisions", "docs/decisions/0001-a.md"] {
            assert!(tree.has(path), "{path}");
        }
        assert!(!tree.has("docs/guide"));
    }

    #[test]
    fn tests_are_known_by_their_path() {
        assert!(is_test_path("tests/proxy.rs"));
        assert!(is_test_path("crates/store/tests/suite.rs"));
        assert!(is_test_path("crates/store/src/tests.rs"));
        assert!(is_test_path("crates/store/src/txn_tests.rs"));
        assert!(is_test_path("crates/router/examples/match_cost.rs"));
        assert!(!is_test_path("crates/store/src/contests.rs"));
        assert!(!is_test_path("crates/store/src/testkit.rs"));
    }
}
