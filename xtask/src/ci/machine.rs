//! What the machine must have before the build and the tests: Debian packages, installed when we may.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// A program that the build or the tests start, and the Debian or Ubuntu package that brings it.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "cc", package: "build-essential", why: "compiles the allocator and the regex library" },
    Need { program: "nginx", package: "nginx-light", why: "the upstream of the end-to-end tests" },
    Need { program: "etcd", package: "etcd-server", why: "the configuration centre of the tests" },
    Need { program: "etcdctl", package: "etcd-client", why: "makes accounts for the tests of etcd" },
    Need { program: "curl", package: "curl", why: "the client of the end-to-end tests" },
    Need { program: "python3", package: "python3", why: "runs the measuring scripts" },
];

/// Where Debian puts daemons; an ordinary user's PATH lacks these.
const DAEMON_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Makes sure that every program of [`NEEDS`] is there; installs what is missing when run by root.
///
/// # Errors
/// When something is missing and we may not, or could not, install it: with the command that does.
pub(crate) fn ensure() -> anyhow::Result<()> {
    let folders = folders();
    let missing = missing(&|program| folders.iter().any(|folder| folder.join(program).is_file()));
    if missing.is_empty() {
        println!("{} programs found", NEEDS.len());
        return Ok(());
    }
    for need in &missing {
        println!("missing: {} (package {}): {}", need.program, need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let remedy = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_root() || !folders.iter().any(|folder| folder.join("apt-get").is_file()) {
        bail!("install what is missing, on Debian and Ubuntu with `sudo {remedy}`");
    }
    apt_get(&["update"])?;
    apt_get(&[&["install", "-y", "--no-install-recommends"], packages.as_slice()].concat())
        .with_context(|| format!("`{remedy}` failed"))
}

fn missing(has: &dyn Fn(&str) -> bool) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !has(need.program)).collect()
}

fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(DAEMON_FOLDERS.map(PathBuf::from)).collect()
}

/// The owner of our own entry in `/proc` is the user we run as.
fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    println!("apt-get {}", arguments.join(" "));
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("apt-get could not be started")?;
    if !status.success() {
        bail!("apt-get {}: {status}", arguments.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absent_programs_are_missing() {
        let names = |missing: Vec<&Need>| missing.iter().map(|need| need.program).collect::<Vec<_>>();
        assert_eq!(names(missing(&|_| true)), Vec::<&str>::new());
        assert_eq!(names(missing(&|program| program != "nginx")), ["nginx"]);
        assert_eq!(missing(&|_| false).len(), NEEDS.len());
    }

    #[test]
    fn daemon_folders_are_searched_whatever_the_path() {
        assert!(folders().contains(&PathBuf::from("/usr/sbin")));
    }
}
