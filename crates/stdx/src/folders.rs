//! The folders that configuration may name: what keeps somebody who may write configuration from reading or writing every
//! file of the process's user.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Folders, or single files, that paths are restricted to. The default allows nothing.
///
/// Paths are compared after resolving links and `..`, so that `/allowed/../etc` and a link below an allowed folder that
/// leads out of it are both outside. Hard links and mounts are not looked through: whoever can make these in an allowed
/// folder has access to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folders(Allowed);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    Everything,
    Below(Arc<[Folder]>),
}

#[derive(Debug)]
struct Folder {
    written: PathBuf,
    /// Where it leads. Looked up once, as soon as it exists: each file that is opened is compared with it.
    resolved: OnceLock<PathBuf>,
}

impl PartialEq for Folder {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Folder {}

impl Default for Allowed {
    fn default() -> Self {
        Self::Below(Arc::new([]))
    }
}

impl Folders {
    /// Every path: for configuration that the command line gives.
    #[must_use]
    pub fn everything() -> Self {
        Self(Allowed::Everything)
    }

    /// The paths below these. They should be absolute; they need not exist yet.
    #[must_use]
    pub fn below(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folder = |written| Folder { written, resolved: OnceLock::new() };
        Self(Allowed::Below(folders.into_iter().map(folder).collect()))
    }

    /// Returns whether `path` is, or is below, one of the folders. A path that doesn't exist is judged by its longest
    /// part that does.
    #[must_use]
    pub fn allow(&self, path: &Path) -> bool {
        let Allowed::Below(folders) = &self.0 else { return true };
        // A device such as /dev/stdout resolves to a name that can't be looked up.
        if folders.iter().any(|folder| folder.written == path) {
            return true;
        }
        resolve(path).is_some_and(|resolved| covers(folders, &resolved))
    }

    /// Returns whether an open file is below one of the folders, wherever the path that opened it led. Without `/proc`,
    /// nothing is.
    #[must_use]
    pub fn hold(&self, file: &impl AsFd) -> bool {
        let Allowed::Below(folders) = &self.0 else { return true };
        let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        std::fs::read_link(link).is_ok_and(|path| covers(folders, &path))
    }
}

fn covers(folders: &[Folder], resolved: &Path) -> bool {
    folders.iter().any(|folder| {
        if let Some(known) = folder.resolved.get() {
            return resolved.starts_with(known);
        }
        let Some(found) = resolve(&folder.written) else { return false };
        let covers = resolved.starts_with(&found);
        if folder.written.exists() {
            // Another thread may have been first, with the same.
            let _ = folder.resolved.set(found);
        }
        covers
    })
}

/// The absolute path without links and `..`. `None` where what doesn't exist yet has a `..`, or can't be looked at.
fn resolve(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let (mut existing, mut rest) = (path, Vec::new());
    loop {
        match existing.canonicalize() {
            Ok(mut resolved) => {
                resolved.extend(rest.into_iter().rev());
                return Some(resolved);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A link to what doesn't exist would lead there once it does.
                if existing.symlink_metadata().is_ok() {
                    return None;
                }
                let Some(Component::Normal(name)) = existing.components().next_back() else { return None };
                rest.push(name);
                existing = existing.parent()?;
            }
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_are_judged_by_where_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("allowed/sub")).unwrap();
        fs::create_dir_all(base.join("allowed-not")).unwrap();
        fs::create_dir_all(base.join("etc")).unwrap();
        fs::write(base.join("etc/secret"), "s").unwrap();
        symlink(base.join("etc"), base.join("allowed/out")).unwrap();
        symlink("sub", base.join("allowed/in")).unwrap();
        symlink(base.join("nowhere"), base.join("allowed/dangling")).unwrap();
        symlink(base.join("allowed"), base.join("alias")).unwrap();
        let folders = Folders::below([base.join("alias")]);
        for (path, expected) in [
            ("allowed", true),
            ("alias", true),
            ("alias/sub", true),
            ("allowed/sub/", true),
            ("allowed/./sub", true),
            ("allowed/in", true),
            ("allowed/not-yet/a/b", true),
            ("etc/../allowed/sub", true),
            ("", false),
            ("etc", false),
            ("allowed-not", false),
            ("allowed-not-yet", false),
            ("allowed/../etc", false),
            ("allowed/sub/../../etc/secret", false),
            ("allowed/out", false),
            ("allowed/out/secret", false),
            ("allowed/out/not-yet", false),
            ("allowed/dangling", false),
            ("allowed/dangling/x", false),
            ("allowed/not-yet/../../etc", false),
        ] {
            assert_eq!(folders.allow(&base.join(path)), expected, "{path}");
            assert!(Folders::everything().allow(&base.join(path)));
            assert!(!Folders::default().allow(&base.join(path)));
        }
        assert!(!folders.allow(Path::new("allowed")), "a relative path is nowhere");
        let single = Folders::below([PathBuf::from("/dev/stdout")]);
        assert!(single.allow(Path::new("/dev/stdout")) && !single.allow(Path::new("/dev/null")));
    }

    #[test]
    fn open_files_are_judged_by_where_they_are() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("allowed")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(dir.path().join("allowed/file"), "f").unwrap();
        symlink("../secret", dir.path().join("allowed/out")).unwrap();
        let folders = Folders::below([dir.path().join("allowed")]);
        for (path, expected) in
            [("allowed/file", true), ("allowed", true), ("allowed/out", false), ("secret", false)]
        {
            let file = File::open(dir.path().join(path)).unwrap();
            assert_eq!(folders.hold(&file), expected, "{path}");
        }
    }
}
