//! The active document, and the file that keeps it.

use serde_json::{Map, Value};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::file::Document;
use store::{Embedded, StoreError};
use tokio::sync::Mutex;

/// Owner only: values hold keys, passwords and certificates.
const FILE_MODE: u32 = 0o600;

/// The active document, its file, and the store in memory that snapshots follow.
#[derive(Debug)]
pub struct Standalone {
    pub(super) memory: Arc<Embedded>,
    pub(super) path: PathBuf,
    /// `None` before the first document.
    pub(super) document: Mutex<Option<Map<String, Value>>>,
}

impl Standalone {
    /// Reads the document of an earlier run at `path`, if there is one, into `memory`.
    ///
    /// # Errors
    /// A file that can't be read, or holds no document.
    pub async fn open(memory: Arc<Embedded>, path: PathBuf) -> Result<Self, StoreError> {
        let document = match stdx::file::read(&path, ::document::limits::BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::Io { path, detail: error.to_string() }),
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(Value::Object(document)) => Some(document),
                _ => return Err(StoreError::Damaged { path, detail: "it is no JSON document".to_owned() }),
            },
        };
        if let Some(document) = &document {
            memory.replace(Document::of_value(document.clone()).entries, None).await?;
        }
        Ok(Self { memory, path, document: Mutex::new(document) })
    }
}

/// Replaces the file as a whole.
pub(super) fn keep(path: &Path, text: &[u8]) -> io::Result<()> {
    let draft = path.with_added_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&draft)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // The name is durable with the directory, not with the file.
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
