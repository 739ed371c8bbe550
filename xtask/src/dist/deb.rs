//! The Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::contents::CONFFILES;
use super::{Release, call};

/// The scripts that dpkg runs, in `packaging/debian`.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Builds the package of `files`.
pub(super) fn build(
    root: &Path,
    release: &Release,
    files: &Path,
    staged: &Path,
    out: &Path,
) -> anyhow::Result<PathBuf> {
    let folder = staged.join("deb");
    call(Command::new("cp").args(["-a", "--"]).args([files, &folder]))?;
    let control = folder.join("DEBIAN");
    fs::create_dir(&control).context("the package's control folder")?;
    fs::write(control.join("control"), description(release)).context("the control file")?;
    fs::write(control.join("conffiles"), CONFFILES).context("the list of configuration files")?;
    for script in SCRIPTS {
        let from = root.join("packaging/debian").join(script);
        fs::copy(&from, control.join(script)).with_context(|| format!("copying {}", from.display()))?;
    }
    // Whatever the umask was when the repository was checked out.
    call(Command::new("chmod").args(["-R", "u=rwX,go=rX", "--"]).arg(&folder))?;
    call(Command::new("chmod").arg("0755").args(SCRIPTS.iter().map(|script| control.join(script))))?;
    let package = out.join(format!("tidegate_{}_{}.deb", release.version, release.elf.debian));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).args([&folder, &package]);
    call(dpkg.env("SOURCE_DATE_EPOCH", &release.time).stdout(std::process::Stdio::null()))?;
    Ok(package)
}

fn description(release: &Release) -> String {
    let libc = match release.elf.glibc {
        Some((major, minor)) => format!("Depends: libc6 (>= {major}.{minor}), libgcc-s1\n"),
        None => String::new(),
    };
    format!(
        "Package: tidegate\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The Tidegate developers <maintainers@tidegate.invalid>\n\
         {libc}\
         Recommends: ca-certificates, logrotate\n\
         Section: httpd\n\
         Priority: optional\n\
         Homepage: https://github.com/tidegate/tidegate\n\
         Description: API gateway, web server and load generator\n \
         Compatible with Apache APISIX: Admin API, resources, plugins, config.yaml\n \
         and etcd layout. Serves static files over HTTPS and HTTP/2, imports nginx\n \
         configurations, and measures HTTP servers.\n",
        release.version, release.elf.debian
    )
}
