//! A zone as it is configured.

use std::path::PathBuf;

/// A zone as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Its name.
    pub name: String,
    /// Bytes of memory for entries; for a zone on disk, for what is known of them.
    pub memory_bytes: u64,
    /// Where entries are kept on disk, if they are.
    pub disk: Option<DiskSpec>,
}

/// A zone's place on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpec {
    /// The folder.
    pub path: PathBuf,
    /// Bytes of files.
    pub bytes: u64,
    /// How many characters of a file's name, from its end, name each folder above it.
    pub levels: Vec<usize>,
}
