//! The data directory: made at the first start, and kept from other users of the machine.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};

/// Mode of the directory. The store, keys and logs below it hold secrets; a group may collect the logs.
const MODE: u32 = 0o750;

/// The bit of directories like `/tmp`.
const STICKY: u32 = 0o1000;

/// Makes the directory where it is missing, and takes the rights of others away from one that is there.
///
/// # Errors
/// A directory that can't be made, that is another user's, or that is open to others and can't be changed.
pub(crate) fn prepare(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    DirBuilder::new()
        .recursive(true)
        .mode(MODE)
        .create(path)
        .with_context(|| format!("the data directory {shown} can't be made"))?;
    let metadata = fs::metadata(path).with_context(|| format!("the data directory {shown} can't be read"))?;
    check_owner(path, metadata.uid(), rustix::process::geteuid().as_raw())?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & !MODE & 0o777 == 0 {
        return Ok(());
    }
    if mode & STICKY != 0 {
        bail!(
            "the data directory {shown} is shared by all users of the machine; name another one with --data-dir"
        );
    }
    let tight = mode & (MODE | 0o7000);
    fs::set_permissions(path, Permissions::from_mode(tight))
        .with_context(|| format!("the data directory {shown} is open to other users (mode {mode:o})"))
}

/// Refuses the directory of another user, who could replace what is in it. Root's is fine, because an operator made it,
/// and root may use anybody's, such as a volume that a container is given.
fn check_owner(path: &Path, owner: u32, own: u32) -> anyhow::Result<()> {
    if owner == own || owner == 0 || own == 0 {
        return Ok(());
    }
    bail!(
        "the data directory {} belongs to user {owner}, and the gateway runs as user {own}: run it as its owner, change \
         the owner, or name another directory with --data-dir",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_open_to_others_is_tightened() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for (before, after) in
            [(0o777, 0o750), (0o755, 0o750), (0o700, 0o700), (0o2775, 0o2750), (0o750, 0o750)]
        {
            let path = folder.path().join(format!("{before:o}"));
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            prepare(&path).unwrap();
            assert_eq!(mode(&path), after, "{before:o}");
        }
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        assert!(prepare(&shared).unwrap_err().to_string().contains("shared by all users"));
        assert_eq!(mode(&shared), 0o1777);
        let new = folder.path().join("a/b");
        prepare(&new).unwrap();
        assert_eq!(mode(&new) & 0o027, 0);
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let path = Path::new("/var/lib/tidegate");
        assert!(check_owner(path, 1000, 1000).is_ok() && check_owner(path, 0, 1000).is_ok());
        assert!(check_owner(path, 1000, 0).is_ok());
        let refused = check_owner(path, 1000, 1001).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 1000") && refused.contains("--data-dir"), "{refused}");
    }
}
