//! How logs are opened.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Mode of logs that are made here: addresses, tokens in URLs and names of consumers are not for every user of the
/// machine; a group may collect them.
const MODE: u32 = 0o640;

/// The file at `path`, opened for appending; it (mode 0640) and its folder are made where missing.
///
/// # Errors
/// When either can't be made or the file can't be written.
pub fn append_to(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(MODE).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn other_users_cannot_read_a_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logs/a.log");
        append_to(&path).expect("opens");
        assert_eq!(fs::metadata(path).expect("there").permissions().mode() & 0o137, 0);
    }
}
