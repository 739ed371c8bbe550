//! What every crate's `Cargo.toml` says, and the little of TOML that the rules need.
//!
//! Versions are written once, in the root's `[workspace.dependencies]`: two crates can't drift apart, and a new
//! dependency is seen in one place.

use super::tree::File;
use super::{Findings, Tree, report};

/// One crate's `Cargo.toml`.
pub(super) struct Manifest<'a> {
    pub(super) path: &'a str,
    /// The folder's name, which is the crate's.
    pub(super) folder: &'a str,
    file: &'a File,
}

impl<'a> Manifest<'a> {
    /// The manifests of the folders under `crates/`.
    pub(super) fn of_crates(tree: &'a Tree) -> impl Iterator<Item = Self> {
        tree.files().iter().filter_map(|file| {
            let folder = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!folder.contains('/')).then_some(Self { path: &file.path, folder, file })
        })
    }

    /// The dependencies of the product (dev-dependencies are left out), each with its line.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.entries().filter_map(|entry| {
            if entry.section.contains("dev-dependencies") {
                return None;
            }
            match entry.section.rsplit_once("dependencies") {
                Some((_, "")) => entry.key.split('.').next().map(|name| (entry.line, name)),
                // `[dependencies.name]`: the crate is named by the heading; one line of it is enough.
                Some((_, name)) if entry.first => Some((entry.line, name.trim_start_matches('.'))),
                _ => None,
            }
        })
    }

    /// The dependencies of tests, each with its line.
    pub(super) fn dev_dependencies(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.entries().filter_map(|entry| {
            let name = entry.key.split('.').next().unwrap_or_default();
            (entry.section == "dev-dependencies").then_some((entry.line, name))
        })
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let mut section = "";
        let mut first = true;
        self.file.lines().filter_map(move |(line, text)| {
            let text = text.trim();
            if let Some(heading) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                section = heading.trim_matches(['[', ']']);
                first = true;
                return None;
            }
            let (key, value) = text.split_once('=').filter(|_| !text.starts_with('#'))?;
            let entry = Entry { section, line, key: key.trim(), value: value.trim(), first };
            first = false;
            Some(entry)
        })
    }

    fn has(&self, section: &str, keys: &[&str], value: Option<&str>) -> bool {
        self.entries().any(|entry| {
            entry.section == section
                && keys.contains(&entry.key)
                && value.is_none_or(|value| entry.value == value || entry.value == format!("\"{value}\""))
        })
    }
}

/// One `key = value`.
struct Entry<'a> {
    section: &'a str,
    line: usize,
    key: &'a str,
    value: &'a str,
    /// Whether it is the first of its section.
    first: bool,
}

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for manifest in Manifest::of_crates(tree) {
        let mut want = |holds: bool, message: String| {
            if !holds {
                report(findings, manifest.path, 0, message);
            }
        };
        let folder = manifest.folder;
        want(
            manifest.has("package", &["name"], Some(folder)),
            format!("the package's name must be `{folder}`"),
        );
        want(
            manifest.has("package", &["license.workspace"], Some("true")),
            "say `license.workspace = true`".into(),
        );
        want(
            manifest.has("package", &["description"], None),
            "say in `description` what the crate is".into(),
        );
        want(manifest.has("lints", &["workspace"], Some("true")), "say `[lints] workspace = true`".into());
        for entry in manifest.entries() {
            let pinned = entry.value.starts_with('"') || entry.value.contains("version");
            if entry.section.ends_with("dependencies") && pinned {
                let message =
                    "write the version in the root's [workspace.dependencies], `workspace = true` here";
                report(findings, manifest.path, entry.line, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    const GOOD: &str = "[package]\nname = \"wire\"\ndescription = \"x\"\nlicense.workspace = true\n\
                        [lints]\nworkspace = true\n[dependencies]\nmemchr.workspace = true\n";

    #[test]
    fn a_manifest_says_what_it_must() {
        assert_eq!(places(check, &[("crates/wire/Cargo.toml", GOOD)]), Vec::<String>::new());
        for (cut, with) in [
            ("name = \"wire\"", "name = \"wires\""),
            ("description = \"x\"\n", ""),
            ("license.workspace = true\n", ""),
            ("[lints]\nworkspace = true\n", ""),
            ("memchr.workspace = true", "memchr = \"2\""),
            ("memchr.workspace = true", "memchr = { version = \"2\" }"),
        ] {
            let text = GOOD.replace(cut, with);
            assert_eq!(places(check, &[("crates/wire/Cargo.toml", &text)]).len(), 1, "{cut} -> {with}");
        }
    }

    #[test]
    fn dependencies_are_found_in_every_way_to_write_them() {
        let text = "[dependencies]\na.workspace = true\nb = { path = \"x\" }\n# c = 1\n[dependencies.d]\npath = \"d\"\n\
                    optional = true\n[target.'cfg(unix)'.dependencies]\ne = { workspace = true }\n\
                    [dev-dependencies]\nf.workspace = true\n[build-dependencies]\ng.workspace = true\n";
        let tree = Tree::of(&[("crates/x/Cargo.toml", text)]);
        let manifest = Manifest::of_crates(&tree).next().unwrap();
        let names: Vec<&str> = manifest.dependencies().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "d", "e", "g"]);
    }
}
