//! `cargo xtask dist`: what a release consists of, in `target/dist`: a tarball, a Debian package, checksums.
//!
//! The same binary gives the same bytes: files are sorted, belong to root, and have the time of the last commit (or
//! `SOURCE_DATE_EPOCH`).

mod contents;
mod deb;
mod elf;
mod materials;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, bail};

use crate::cargo;
use elf::Elf;

/// A release in the making.
pub(crate) struct Release {
    /// As in the root's `Cargo.toml`.
    version: String,
    /// Seconds since 1970, of every file.
    time: String,
    elf: Elf,
}

/// Builds the release binary, or takes the one that is named, and packs it.
///
/// # Errors
/// When a tool is missing or fails, or the binary is for another system.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let built = root.join("target/release/tidegate");
    let (binary, out) = match arguments {
        [] => {
            cargo::run(root, &["build", "--release", "--locked", "--package", "gateway"], &[])?;
            (built, root.join("target/dist"))
        }
        [binary] => (PathBuf::from(binary), root.join("target/dist")),
        [binary, out] => (PathBuf::from(binary), PathBuf::from(out)),
        _ => bail!(
            "a binary and a folder for the results at most: cargo xtask dist target/release/tidegate /tmp/dist"
        ),
    };
    let release = Release { version: version(root)?, time: time(root)?, elf: Elf::read(&binary)? };
    print!("{}", pack(root, &release, &binary, &out)?);
    println!("in {}", out.display());
    Ok(())
}

/// Packs `binary` into `out`, and returns the checksums. What else is in `out` is removed.
fn pack(root: &Path, release: &Release, binary: &Path, out: &Path) -> anyhow::Result<String> {
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("emptying {}", out.display()))?;
    }
    let staged = out.join("stage");
    let files = contents::gather(root, binary, release, &staged.join("files"))?;
    let tarball = tarball(release, &files, &staged, out)?;
    let package = deb::build(root, release, &files, &staged, out)?;
    fs::remove_dir_all(&staged).context("removing the staging folder")?;
    let names = [&tarball, &package].map(|path| path.file_name().unwrap_or_default().to_owned());
    let sums = stdout(Command::new("sha256sum").args(names).current_dir(out))?;
    fs::write(out.join("SHA256SUMS"), &sums).context("writing the checksums")?;
    Ok(sums)
}

/// The files under a folder with the release's name.
fn tarball(release: &Release, files: &Path, staged: &Path, out: &Path) -> anyhow::Result<PathBuf> {
    let name = format!("tidegate-{}-{}-linux-gnu", release.version, release.elf.machine);
    let folder = staged.join(&name);
    fs::create_dir_all(folder.join("share")).context("the tarball's folder")?;
    for (from, to) in [
        ("usr/bin/tidegate", "tidegate"),
        ("etc/tidegate/config.yaml", "config.yaml"),
        ("etc/logrotate.d/tidegate", "share/logrotate"),
        ("usr/lib/systemd/system/tidegate.service", "share/tidegate.service"),
    ] {
        fs::copy(files.join(from), folder.join(to)).with_context(|| format!("copying {from}"))?;
    }
    for folder_of in
        ["usr/share/doc/tidegate", "usr/share/bash-completion", "usr/share/zsh", "usr/share/fish"]
    {
        let from = files.join(folder_of);
        if from.is_dir() {
            call(Command::new("cp").args(["-r", "--"]).args([&from, &folder.join("share")]))?;
        }
    }
    let archive = out.join(format!("{name}.tar.gz"));
    call(tar(release).arg("-cf").arg(&archive).arg("-C").arg(staged).arg(&name))?;
    Ok(archive)
}

/// GNU tar that writes the same bytes for the same files.
fn tar(release: &Release) -> Command {
    let mut tar = Command::new("tar");
    let time = format!("--mtime=@{}", release.time);
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", &time]);
    // Without the time of day, which gzip would write.
    tar.arg("--use-compress-program=gzip -n9");
    tar
}

/// The version in the root's `Cargo.toml`.
fn version(root: &Path) -> anyhow::Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    Ok(line.context("Cargo.toml has no version")?.trim_end_matches('"').to_owned())
}

/// The time that all files get.
fn time(root: &Path) -> anyhow::Result<String> {
    if let Ok(time) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(time);
    }
    let of_commit = stdout(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root));
    of_commit.map(|text| text.trim().to_owned()).context("no git history: set SOURCE_DATE_EPOCH")
}

/// Runs a program that has to succeed.
fn call(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{name} could not be started"))?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}

/// What a program prints that has to succeed.
fn stdout(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{name} could not be started"))?;
    if !output.status.success() {
        bail!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} prints no text"))
}

#[cfg(test)]
mod tests;
