//! `cargo xtask pgo`: the release binary, optimised by a profile of itself under [`training`] traffic.
//!
//! The compiler then knows which way branches go: what a request runs through lies together, and the rest out of the
//! way. That is worth a sixth of a request's instructions and a fifth of its cache lines (docs/performance.md). It takes
//! two release builds, so `cargo build --release` stays the plain one.

mod training;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, bail};

use crate::cargo;

/// Versions of LLVM whose tools Debian and Ubuntu name by number, newest first. They read what newer compilers write, as
/// long as the format of raw profiles is the same; `llvm-profdata` says so where it is not.
const LLVM_VERSIONS: std::ops::RangeInclusive<u32> = 19..=30;

/// Builds, trains, and builds again.
///
/// # Errors
/// When a tool is missing, a build fails or the traffic isn't answered.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let host = rustc(&["--print", "host-tuple"])?;
    // Looked for first: a build takes minutes.
    let profdata = profdata(&host)?;
    let folder = target_folder(root).join("pgo");
    let profiles = folder.join("profiles");
    if profiles.exists() {
        fs::remove_dir_all(&profiles).with_context(|| format!("emptying {}", profiles.display()))?;
    }
    let instrumented = build(root, &host, &folder.join("instrumented"), "generate", &profiles)?;
    training::run(&instrumented, &folder.join("training"), 1)?;
    let profile = folder.join("tidegate.profdata");
    merge(&profdata, &profiles, &profile)?;
    let guided = build(root, &host, &folder, "use", &profile)?;
    println!("built: {}", guided.display());
    Ok(())
}

/// The release binary with `-Cprofile-generate` or `-Cprofile-use`. The target is named so that build scripts and macros,
/// which run here as well, are left out of it.
fn build(root: &Path, host: &str, target: &Path, how: &str, profile: &Path) -> anyhow::Result<PathBuf> {
    let target_folder = text(target)?;
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let flags = format!("{flags} -Cprofile-{how}={}", text(profile)?);
    let arguments = [
        "build",
        "--release",
        "--locked",
        "--package",
        "gateway",
        "--target",
        host,
        "--target-dir",
        target_folder,
    ];
    cargo::run(root, &arguments, &[("RUSTFLAGS", flags.trim_start())])?;
    Ok(target.join(host).join("release/tidegate"))
}

fn merge(profdata: &Path, profiles: &Path, into: &Path) -> anyhow::Result<()> {
    let status = Command::new(profdata).arg("merge").arg("-o").args([into, profiles]).status();
    let status = status.with_context(|| format!("{} could not be started", profdata.display()))?;
    if !status.success() {
        bail!("{} merge: {status}; a version of LLVM as new as rustc's is needed", profdata.display());
    }
    Ok(())
}

/// rustup's own `llvm-profdata`, or else one of the system's.
fn profdata(host: &str) -> anyhow::Result<PathBuf> {
    let own =
        Path::new(&rustc(&["--print", "sysroot"])?).join("lib/rustlib").join(host).join("bin/llvm-profdata");
    let found = candidates(own).into_iter().find(|program| {
        Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    found.context(
        "llvm-profdata is missing: install it with `rustup component add llvm-tools`, or on Debian and Ubuntu with \
         `apt-get install llvm-19`",
    )
}

/// Where `llvm-profdata` may be, the best first: rustup's is of the compiler's version.
fn candidates(own: PathBuf) -> Vec<PathBuf> {
    let numbered = LLVM_VERSIONS.rev().map(|version| PathBuf::from(format!("llvm-profdata-{version}")));
    [own].into_iter().chain(numbered).chain(["llvm-profdata".into()]).collect()
}

fn rustc(arguments: &[&str]) -> anyhow::Result<String> {
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(program).args(arguments).output().context("rustc could not be started")?;
    if !output.status.success() {
        bail!("rustc {}: {}", arguments.join(" "), output.status);
    }
    Ok(String::from_utf8(output.stdout).context("rustc's answer")?.trim().to_owned())
}

fn target_folder(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// A path as an argument of the compiler, which takes flags apart at spaces.
fn text(path: &Path) -> anyhow::Result<&str> {
    let text = path.to_str().filter(|text| !text.contains(char::is_whitespace));
    text.with_context(|| format!("{} has to be a path without spaces, in UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_own_tool_comes_first_and_then_the_newest() {
        let found = candidates("/sysroot/llvm-profdata".into());
        let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names[..2], ["/sysroot/llvm-profdata", "llvm-profdata-30"]);
        assert_eq!(names[names.len() - 2..], ["llvm-profdata-19", "llvm-profdata"]);
    }

    #[test]
    fn paths_with_spaces_are_refused_by_name() {
        assert!(text(Path::new("/a/b")).is_ok());
        assert!(text(Path::new("/a b")).unwrap_err().to_string().contains("/a b"));
    }
}
