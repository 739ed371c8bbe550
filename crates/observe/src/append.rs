//! How logs are opened.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// The file at `path`, opened for appending; it and its folder are made where missing.
///
/// # Errors
/// When either can't be made or the file can't be written.
pub fn append_to(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}
