//! `cargo xtask deny`: what `deny.toml` says of dependencies: their licences, which are banned, where they come from.
//!
//! cargo-deny does it where it is installed. Building it takes longer than all other checks together, so that elsewhere the
//! same file is read here. Known vulnerabilities and yanked versions, which need a database from the network, are then not
//! looked for, and the output says so.

mod licence;
mod packages;
mod policy;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};

use crate::cargo;
use licence::allowed;
use packages::Package;
use policy::Policy;

/// The registry that is known without being named.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the dependencies of the workspace at `root`.
///
/// # Errors
/// With everything that the policy refuses.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    if is_installed(root) {
        return cargo::run(root, &["deny", "check"], &[]);
    }
    let text = std::fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let policy = Policy::read(&text)?;
    let packages = packages::of_workspace(root, &policy)?;
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("Cargo.toml")?;
    let mut refused = refusals(&policy, &packages);
    refused.extend(wildcards(&policy, &manifest));
    for line in &refused {
        println!("{line}");
    }
    let several = several_versions(&packages);
    println!(
        "{} packages: licences, bans and sources checked; {} in several versions{}",
        packages.len(),
        several.len(),
        if several.is_empty() { String::new() } else { format!(" ({})", several.join(", ")) },
    );
    println!("not checked without cargo-deny: security advisories, yanked versions, texts of licences");
    if !refused.is_empty() {
        bail!("deny.toml refuses dependencies, in {} place(s)", refused.len());
    }
    Ok(())
}

fn is_installed(root: &Path) -> bool {
    let mut version = cargo::command(root, &["deny", "--version"], &[]);
    let status = version.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// What the policy refuses of `packages`, a line each.
fn refusals(policy: &Policy, packages: &BTreeSet<Package>) -> Vec<String> {
    let mut refused = Vec::new();
    for package in packages {
        let Package { name, version, licence, source } = package;
        match allowed(licence, &policy.licences) {
            Ok(true) => {}
            Ok(false) => refused.push(format!("{name} {version}: licence `{licence}` is not allowed")),
            Err(why) => refused.push(format!("{name} {version}: licence `{licence}`: {why}")),
        }
        if let Some(reason) = policy.banned.get(name) {
            refused.push(format!("{name} {version}: banned: {reason}"));
        }
        match source.as_deref() {
            Some(source) if source.starts_with("git+") && policy.only_known_git => {
                refused.push(format!("{name} {version}: from an unknown repository: {source}"));
            }
            Some(source)
                if !source.starts_with("git+") && source != CRATES_IO && policy.only_known_registries =>
            {
                refused.push(format!("{name} {version}: from an unknown registry: {source}"));
            }
            _ => {}
        }
    }
    refused
}

/// Dependencies of any version. Versions are written in the root's manifest alone, which tidy's rule `manifest` holds.
fn wildcards(policy: &Policy, manifest: &str) -> Vec<String> {
    if !policy.no_wildcards {
        return Vec::new();
    }
    let any = |line: &str| line.replace(' ', "").contains("=\"*\"");
    let lines =
        (1..).zip(manifest.lines()).filter(|(_, line)| !line.trim_start().starts_with('#') && any(line));
    lines.map(|(number, line)| format!("Cargo.toml:{number}: any version will do: {}", line.trim())).collect()
}

fn several_versions(packages: &BTreeSet<Package>) -> Vec<&str> {
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for package in packages {
        *versions.entry(&package.name).or_default() += 1;
    }
    versions.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const POLICY: &str = "\
[graph]
targets = [\"x86_64-unknown-linux-gnu\"]
all-features = true
[licenses]
allow = [\"MIT\", \"Apache-2.0\"]
[bans]
wildcards = \"deny\"
deny = [{ name = \"native-tls\", reason = \"TLS is rustls\" }]
[sources]
unknown-registry = \"deny\"
unknown-git = \"deny\"
";

    fn package(name: &str, licence: &str, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.to_owned(),
            source: source.map(str::to_owned),
        }
    }

    #[test]
    fn each_kind_of_refusal_is_named() {
        let policy = Policy::read(POLICY).unwrap();
        for (package, words) in [
            (package("good", "MIT OR GPL-3.0-only", Some(CRATES_IO)), None),
            (package("own", "Apache-2.0", None), None),
            (package("copyleft", "GPL-3.0-only", Some(CRATES_IO)), Some("is not allowed")),
            (package("half", "MIT AND GPL-3.0-only", Some(CRATES_IO)), Some("is not allowed")),
            (package("none", "", Some(CRATES_IO)), Some("no licence")),
            (package("native-tls", "MIT", Some(CRATES_IO)), Some("banned: TLS is rustls")),
            (package("forked", "MIT", Some("git+https://example.test/x#1")), Some("unknown repository")),
            (package("other", "MIT", Some("registry+https://example.test")), Some("unknown registry")),
            (package("sparse", "MIT", Some("sparse+https://example.test/")), Some("unknown registry")),
        ] {
            let name = package.name.clone();
            let refused = refusals(&policy, &BTreeSet::from([package]));
            assert_eq!(refused.len(), usize::from(words.is_some()), "{name}: {refused:?}");
            assert!(refused.iter().all(|line| line.contains(words.unwrap())), "{name}: {refused:?}");
        }
        for (manifest, count) in
            [("a = \"*\"\n", 1), ("a = { version = \"*\" }\n", 1), ("# \"*\"\na = \"1\"\n", 0)]
        {
            assert_eq!(wildcards(&policy, manifest).len(), count, "{manifest}");
        }
    }

    /// A workspace on the disk, with one dependency under `licence`.
    fn workspace(name: &str, licence: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("tidegate-deny-{name}-{}", std::process::id()));
        let manifest = |name: &str, licence: &str, more: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{licence}{more}")
        };
        let licence = if licence.is_empty() { String::new() } else { format!("license = \"{licence}\"\n") };
        let own = "\n[workspace]\nmembers = [\"dependency\"]\n[dependencies]\ndependency = { path = \"dependency\" }\n";
        for (folder, text) in [
            ("", manifest("top", "license = \"MIT\"\n", own)),
            ("dependency", manifest("dependency", &licence, "")),
        ] {
            fs::create_dir_all(root.join(folder).join("src")).unwrap();
            fs::write(root.join(folder).join("Cargo.toml"), text).unwrap();
            fs::write(root.join(folder).join("src/lib.rs"), "").unwrap();
        }
        fs::write(root.join("deny.toml"), POLICY).unwrap();
        let made = cargo::command(&root, &["generate-lockfile", "--offline", "--quiet"], &[]).status();
        assert!(made.unwrap().success());
        root
    }

    #[test]
    fn what_cargo_says_of_a_workspace_is_held_against_its_policy() {
        for (name, licence, good) in
            [("good", "MIT/Apache-2.0", true), ("bad", "AGPL-3.0-or-later", false), ("none", "", false)]
        {
            let root = workspace(name, licence);
            let policy = Policy::read(POLICY).unwrap();
            let packages = packages::of_workspace(&root, &policy).unwrap();
            assert_eq!(packages.len(), 2, "{packages:?}");
            let refused = refusals(&policy, &packages);
            assert_eq!(refused.is_empty(), good, "{refused:?}");
            assert!(refused.iter().all(|line| line.starts_with("dependency 0.1.0: licence")), "{refused:?}");
            fs::remove_dir_all(root).unwrap();
        }
    }
}
