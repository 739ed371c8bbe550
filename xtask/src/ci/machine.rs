//! What the machine must have before the build and the tests: Debian packages, installed when we may.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// A program that the build or the tests start.
struct Need {
    program: &'static str,
    source: Source,
    why: &'static str,
}

/// Who brings a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A package of Debian or Ubuntu, without which the run makes no sense.
    Package(&'static str),
    /// A package that is installed where that is possible. Without it the tests that it judges are skipped: not every
    /// release has it, and a machine of one's own need not.
    Referee(&'static str),
    /// A referee that Go builds, where Go is there.
    Go(&'static str),
}

const NEEDS: &[Need] = &[
    need("cc", Source::Package("build-essential"), "compiles the allocator and the regex library"),
    need("nginx", Source::Package("nginx-light"), "the upstream of the end-to-end tests"),
    need("etcd", Source::Package("etcd-server"), "the configuration centre of the tests"),
    need("etcdctl", Source::Package("etcd-client"), "makes accounts for the tests of etcd"),
    need("redis-server", Source::Package("redis-server"), "shares counters in the tests of limits"),
    need("redis-cli", Source::Package("redis-tools"), "makes clusters of it, and looks into it"),
    need("curl", Source::Package("curl"), "the client of the end-to-end tests"),
    need("python3", Source::Package("python3"), "runs the measuring scripts"),
    need("slapd", Source::Package("slapd"), "the directory of the tests of LDAP"),
    need("nghttp", Source::Referee("nghttp2-client"), "loads a page by HTTP/2"),
    need("chromium", Source::Referee("chromium"), "loads a page as people do"),
    need(
        "h2spec",
        Source::Go("github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"),
        "HTTP/2's conformance suite",
    ),
];

const fn need(program: &'static str, source: Source, why: &'static str) -> Need {
    Need { program, source, why }
}

/// Where Debian puts daemons; an ordinary user's PATH lacks these.
const DAEMON_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Makes sure that every program of [`NEEDS`] is there; installs what is missing when run by root.
///
/// # Errors
/// When something that is needed is missing and we may not, or could not, install it: with the command that does.
pub(crate) fn ensure() -> anyhow::Result<()> {
    let folders = folders();
    let has = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let missing = missing(&has);
    for need in &missing {
        println!("missing: {} ({}): {}", need.program, need.source.name(), need.why);
    }
    let packages = names(&missing, |source| matches!(source, Source::Package(_)));
    let installs = is_root() && has("apt-get");
    if !packages.is_empty() {
        if !installs {
            bail!(
                "install what is missing, on Debian and Ubuntu with `sudo apt-get {}`",
                install(&packages).join(" ")
            );
        }
        apt_get(&["update"])?;
        apt_get(&install(&packages))?;
    }
    let referees = names(&missing, |source| matches!(source, Source::Referee(_)));
    if installs && !referees.is_empty() {
        unless_skipped(apt_get(&["update"]).and_then(|()| apt_get(&install(&referees))));
    }
    for module in names(&missing, |source| matches!(source, Source::Go(_))) {
        if has("go") {
            unless_skipped(run("go", &["install", module]));
        }
    }
    println!("{} programs looked for", NEEDS.len());
    Ok(())
}

impl Source {
    /// The package or module.
    fn name(self) -> &'static str {
        match self {
            Self::Package(name) | Self::Referee(name) | Self::Go(name) => name,
        }
    }
}

fn missing(has: &dyn Fn(&str) -> bool) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !has(need.program)).collect()
}

/// What brings those that come from where `wanted` says.
fn names(missing: &[&Need], wanted: fn(&Source) -> bool) -> Vec<&'static str> {
    missing.iter().filter(|need| wanted(&need.source)).map(|need| need.source.name()).collect()
}

fn install<'p>(packages: &[&'p str]) -> Vec<&'p str> {
    [&["install", "-y", "--no-install-recommends"], packages].concat()
}

/// Says what follows where a referee can't be had.
fn unless_skipped(installed: anyhow::Result<()>) {
    if let Err(error) = installed {
        println!("{error:#}: the tests that ask for it are skipped");
    }
}

fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where Go puts what it has built.
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    std::env::split_paths(&path).chain(DAEMON_FOLDERS.map(PathBuf::from)).chain(home).collect()
}

/// The owner of our own entry in `/proc` is the user we run as.
fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    run("apt-get", arguments)
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let words = arguments.join(" ");
    println!("{program} {words}");
    let status = Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .with_context(|| format!("{program} could not be started"))?;
    if !status.success() {
        bail!("`{program} {words}`: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absent_programs_are_missing() {
        let programs = |missing: Vec<&Need>| missing.iter().map(|need| need.program).collect::<Vec<_>>();
        assert_eq!(programs(missing(&|_| true)), Vec::<&str>::new());
        assert_eq!(programs(missing(&|program| program != "nginx")), ["nginx"]);
        assert_eq!(missing(&|_| false).len(), NEEDS.len());
        let absent = missing(&|program| !["nginx", "nghttp", "h2spec"].contains(&program));
        assert_eq!(names(&absent, |source| matches!(source, Source::Package(_))), ["nginx-light"]);
        assert_eq!(names(&absent, |source| matches!(source, Source::Referee(_))), ["nghttp2-client"]);
    }

    #[test]
    fn daemon_folders_are_searched_whatever_the_path() {
        assert!(folders().contains(&PathBuf::from("/usr/sbin")));
    }
}
