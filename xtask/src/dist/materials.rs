//! The libraries that the binary is made of: their list for a bill of materials, and their licences.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context;

use super::{Release, stdout};
use crate::cargo;

/// A library of the binary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    name: String,
    version: String,
    /// SPDX.
    license: String,
    /// SHA-256 of its archive, from the lock file.
    checksum: String,
}

/// The libraries of the binary that are not ours, by name and version.
pub(super) fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let arguments = ["tree", "--locked", "--package", "gateway", "--edges", "normal", "--prefix", "none"];
    let tree = stdout(cargo::command(root, &arguments, &[]).args(["--format", "{p}|{l}"]))?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    Ok(parse(&tree, &checksums(&lock)))
}

/// Lines such as `bytes v1.10.1|MIT`. A path in parentheses is a crate of the workspace or a macro's mark.
fn parse(tree: &str, checksums: &BTreeMap<(String, String), String>) -> Vec<Package> {
    let mut found: Vec<Package> = tree
        .lines()
        .filter_map(|line| {
            let (package, license) = line.split_once('|')?;
            let mut words = package.split_whitespace();
            let key = (words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned());
            let checksum = checksums.get(&key)?.clone();
            let license = license.trim().trim_end_matches("(*)").trim().replace('/', " OR ");
            Some(Package { name: key.0, version: key.1, license, checksum })
        })
        .collect();
    found.sort();
    found.dedup_by(|one, other| (&one.name, &one.version) == (&other.name, &other.version));
    found
}

/// By name and version. Crates of the workspace have none.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |section: &str, key: &str| {
        let line = section.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let sections = lock.split("[[package]]").skip(1);
    let entry = |section: &str| {
        Some(((value(section, "name")?, value(section, "version")?), value(section, "checksum")?))
    };
    sections.filter_map(entry).collect()
}

/// The bill of materials: CycloneDX 1.5, JSON.
pub(super) fn sbom(release: &Release, packages: &[Package]) -> String {
    let mut components = String::new();
    for (index, package) in packages.iter().enumerate() {
        let Package { name, version, license, checksum } = package;
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(
            components,
            "{comma}\n    {{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\", \
             \"purl\": \"pkg:cargo/{name}@{version}\", \
             \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": \"{checksum}\"}}], \
             \"licenses\": [{{\"expression\": \"{license}\"}}]}}"
        );
    }
    format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \
         \"metadata\": {{\"component\": {{\"type\": \"application\", \"name\": \"tidegate\", \"version\": \"{}\", \
         \"licenses\": [{{\"expression\": \"Apache-2.0\"}}]}}}},\n  \"components\": [{components}\n  ]\n}}\n",
        release.version
    )
}

/// The licence texts of all libraries, each text once.
pub(super) fn licenses(packages: &[Package]) -> anyhow::Result<String> {
    let sources = sources()?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let label = format!("{} {} ({})", package.name, package.version, package.license);
        for text in texts_of(&sources, package) {
            texts.entry(text).or_default().push(label.clone());
        }
    }
    let mut out = String::from("Tidegate contains these libraries:\n\n");
    for Package { name, version, license, .. } in packages {
        let _ = writeln!(out, "  {name} {version}: {license}");
    }
    for (text, labels) in texts {
        let _ = write!(out, "\n{}\n{}\n\n{}\n", "-".repeat(80), labels.join("\n"), text.trim());
    }
    Ok(out)
}

/// The folders with the sources of libraries.
fn sources() -> anyhow::Result<Vec<PathBuf>> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let folder = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

/// The licence files of a library, in the order of their names.
fn texts_of(sources: &[PathBuf], package: &Package) -> Vec<String> {
    let folder = format!("{}-{}", package.name, package.version);
    let files = sources.iter().filter_map(|source| fs::read_dir(source.join(&folder)).ok()).flatten();
    let mut paths: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|start| name.starts_with(start))
    });
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_others_are_listed_once() {
        let lock = "[[package]]\nname = \"bytes\"\nversion = \"1.1.0\"\nchecksum = \"ab\"\n\n\
                    [[package]]\nname = \"stdx\"\nversion = \"0.1.0\"\n";
        let tree = "gateway v0.1.0 (/x)|Apache-2.0\nstdx v0.1.0 (/y)|Apache-2.0\nbytes v1.1.0|MIT/Apache-2.0\n\
                    bytes v1.1.0|MIT/Apache-2.0 (*)\n";
        let found = parse(tree, &checksums(lock));
        let bytes = Package {
            name: "bytes".to_owned(),
            version: "1.1.0".to_owned(),
            license: "MIT OR Apache-2.0".to_owned(),
            checksum: "ab".to_owned(),
        };
        assert_eq!(found, [bytes]);
    }
}
