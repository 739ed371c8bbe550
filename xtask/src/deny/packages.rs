//! The packages that a workspace is made of: from cargo, with their licences, and from the lock file, with their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};

use super::policy::Policy;
use crate::cargo;

/// One package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// The SPDX expression; empty where it has none.
    pub(super) licence: String,
    /// Where it comes from; `None` for a folder on the disk.
    pub(super) source: Option<String>,
}

/// The packages of the workspace at `root` for the platforms and features of `policy`: what is built, what builds it, and
/// what tests it.
///
/// # Errors
/// When cargo fails, or the lock file lacks a package.
pub(super) fn of_workspace(root: &Path, policy: &Policy) -> anyhow::Result<BTreeSet<Package>> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let sources = sources(&lock);
    let targets = policy.targets.iter().map(|target| tree(root, Some(target), policy.all_features));
    let listed = targets.collect::<anyhow::Result<Vec<_>>>().or_else(|error| {
        // What this machine builds was downloaded for the build; the rest may be out of reach.
        println!("{error:#}\nonly the packages for this machine and the default features are checked");
        tree(root, None, false).map(|lines| vec![lines])
    })?;
    let mut packages = BTreeSet::new();
    for (name, version, licence) in listed.into_iter().flatten() {
        let Some(source) = sources.get(&(name.as_str(), version.as_str())) else {
            bail!("Cargo.lock has no {name} {version}");
        };
        let source = source.map(str::to_owned);
        packages.insert(Package { name, version, licence, source });
    }
    Ok(packages)
}

/// Name, version and licence of a package.
type Line = (String, String, String);

/// All packages for one platform, this machine's where none is named.
fn tree(root: &Path, target: Option<&str>, all_features: bool) -> anyhow::Result<Vec<Line>> {
    let arguments = ["tree", "--workspace", "--locked", "--quiet", "--edges", "normal,build,dev"];
    let mut command = cargo::command(root, &arguments, &[]);
    command.args(["--prefix", "none", "--format", "{p}\t{l}"]).args(all_features.then_some("--all-features"));
    let output = command
        .args(target.into_iter().flat_map(|name| ["--target", name]))
        .output()
        .context("cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(line).collect())
}

/// `name v1.2.3 (anything)<TAB>licence (*)`, where `(*)` stands at packages that were listed before.
fn line(line: &str) -> Option<Line> {
    let (package, licence) = line.split_once('\t')?;
    let mut words = package.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let licence = licence.trim_end().trim_end_matches("(*)").trim();
    Some((name.to_owned(), version.to_owned(), licence.to_owned()))
}

/// The source of each package of a lock file, by name and version.
fn sources(lock: &str) -> BTreeMap<(&str, &str), Option<&str>> {
    let value = |package: &'_ str, key: &str| -> Option<(usize, usize)> {
        let start = package.find(&format!("\n{key} = \""))? + key.len() + 5;
        Some((start, start + package[start..].find('"')?))
    };
    lock.split("\n[[package]]")
        .filter_map(|package| {
            let text = |key: &str| value(package, key).map(|(start, end)| &package[start..end]);
            Some(((text("name")?, text("version")?), text("source")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_lock_files_are_read() {
        let all = |text: &str| line(text).map(|(a, b, c)| format!("{a} {b} {c}"));
        assert_eq!(
            all("a-b v1.2.3+x (proc-macro)\tMIT OR ISC (*)").as_deref(),
            Some("a-b 1.2.3+x MIT OR ISC")
        );
        assert_eq!(all("own v0.1.0 (/x y/own)\t").as_deref(), Some("own 0.1.0 "));
        assert_eq!(all(""), None);
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"git+x\"\n\n\
                    [[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        let found = sources(lock);
        assert_eq!(found[&("a", "1.0.0")], Some("git+x"));
        assert_eq!(found[&("b", "0.1.0")], None);
    }
}
