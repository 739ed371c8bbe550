//! The files of a release, where a Debian package puts them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{Release, materials, stdout};

/// What is copied from the repository: where from, where to.
const COPIES: &[(&str, &str)] = &[
    ("packaging/config.yaml", "etc/tidegate/config.yaml"),
    ("packaging/logrotate", "etc/logrotate.d/tidegate"),
    ("packaging/systemd/tidegate.service", "usr/lib/systemd/system/tidegate.service"),
    ("docs/guide/config.example.yaml", "usr/share/doc/tidegate/config.example.yaml"),
    ("CHANGELOG.md", "usr/share/doc/tidegate/CHANGELOG.md"),
    ("README.md", "usr/share/doc/tidegate/README.md"),
    ("LICENSE", "usr/share/doc/tidegate/copyright"),
];

/// Shells, and where their completions belong.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/tidegate"),
    ("zsh", "usr/share/zsh/vendor-completions/_tidegate"),
    ("fish", "usr/share/fish/vendor_completions.d/tidegate.fish"),
];

/// The configuration files, which upgrades leave as the operator changed them.
pub(super) const CONFFILES: &str = "/etc/tidegate/config.yaml\n/etc/logrotate.d/tidegate\n";

/// Puts all files into `into`.
pub(super) fn gather(root: &Path, binary: &Path, release: &Release, into: &Path) -> anyhow::Result<PathBuf> {
    let put = |to: &str, mode: u32, bytes: &[u8]| {
        let path = into.join(to);
        fs::create_dir_all(path.parent().unwrap_or(into)).with_context(|| format!("the folder of {to}"))?;
        fs::write(&path, bytes).with_context(|| format!("writing {to}"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .with_context(|| format!("the mode of {to}"))
    };
    let read = |path: PathBuf| fs::read(&path).with_context(|| format!("reading {}", path.display()));
    put("usr/bin/tidegate", 0o755, &read(binary.to_path_buf())?)?;
    for (from, to) in COPIES {
        put(to, 0o644, &read(root.join(from))?)?;
    }
    let packages = materials::packages(root)?;
    put("usr/share/doc/tidegate/sbom.cdx.json", 0o644, materials::sbom(release, &packages).as_bytes())?;
    put("usr/share/doc/tidegate/THIRD-PARTY-LICENSES", 0o644, materials::licenses(&packages)?.as_bytes())?;
    // A binary for another machine can't print its completions; those of its package are left out.
    if release.elf.machine == std::env::consts::ARCH {
        for (shell, to) in COMPLETIONS {
            let text = stdout(Command::new(binary).args(["completions", shell]))?;
            put(to, 0o644, text.as_bytes())?;
        }
    }
    Ok(into.to_path_buf())
}
