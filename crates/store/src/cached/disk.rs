//! The last configuration on disk: checksummed, and replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};

use crate::{Entry, Listing, StoreError};

/// How the file begins; the number is the layout's.
const MAGIC: &[u8] = b"tidegate last known good 1\n";

/// Owner only: values hold keys, passwords and certificates.
const FILE_MODE: u32 = 0o600;

/// A configuration that was in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saved {
    /// When it was saved, in milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// The configuration.
    pub(crate) listing: Listing,
}

#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(string, tag = "1")]
    source: String,
    #[prost(uint64, tag = "2")]
    revision: u64,
    #[prost(uint64, tag = "3")]
    unix_ms: u64,
    #[prost(uint64, tag = "4")]
    count: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Row {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(uint64, tag = "3")]
    create_revision: u64,
    #[prost(uint64, tag = "4")]
    mod_revision: u64,
}

/// The file.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    path: PathBuf,
    /// Where the configuration comes from: another centre's is not this one's.
    source: String,
}

impl Disk {
    pub(crate) fn new(path: PathBuf, source: String) -> Self {
        Self { path, source }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces what is there. Whoever reads sees all of the old or all of the new, also after a crash.
    pub(crate) fn save(&self, saved: &Saved) -> Result<(), StoreError> {
        self.write(saved).map_err(|error| self.failed(&error.to_string()))
    }

    fn write(&self, saved: &Saved) -> io::Result<()> {
        let draft = self.path.with_added_extension("new");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&draft)?;
        let mut out = Summing { out: io::BufWriter::new(file), sum: Context::new(&SHA256) };
        out.write_all(MAGIC)?;
        let head = Head {
            source: self.source.clone(),
            revision: saved.listing.revision,
            unix_ms: saved.unix_ms,
            count: saved.listing.entries.len() as u64,
        };
        out.write_all(&head.encode_length_delimited_to_vec())?;
        for entry in &saved.listing.entries {
            let row = Row {
                key: entry.key.to_string(),
                value: entry.value.to_vec(),
                create_revision: entry.create_revision,
                mod_revision: entry.mod_revision,
            };
            out.write_all(&row.encode_length_delimited_to_vec())?;
        }
        let Summing { mut out, sum } = out;
        out.write_all(sum.finish().as_ref())?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
        // The name is durable with the directory, not with the file.
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// What is there; `None` where nothing is, or what another centre said.
    ///
    /// # Errors
    /// A file that can't be read or is not as it was written.
    pub(crate) fn load(&self) -> Result<Option<Saved>, StoreError> {
        let mut bytes = Vec::new();
        match File::open(&self.path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error.to_string())),
            Ok(_) => {}
        }
        let damaged = || StoreError::Damaged {
            path: self.path.clone(),
            detail: "it is not as it was written".to_owned(),
        };
        let (content, sum) =
            bytes.len().checked_sub(SHA256_OUTPUT_LEN).map(|at| bytes.split_at(at)).ok_or_else(damaged)?;
        if digest(&SHA256, content).as_ref() != sum {
            return Err(damaged());
        }
        let mut rest = content.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let head = Head::decode_length_delimited(&mut rest).map_err(|_| damaged())?;
        if head.source != self.source {
            tracing::warn!(path = %self.path.display(), "the configuration kept is another centre's; it is not used");
            return Ok(None);
        }
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let row = Row::decode_length_delimited(&mut rest).map_err(|_| damaged())?;
            entries.push(Entry {
                key: row.key.into(),
                value: Arc::from(row.value),
                create_revision: row.create_revision,
                mod_revision: row.mod_revision,
                expires_at_ms: None,
            });
        }
        Ok(Some(Saved { unix_ms: head.unix_ms, listing: Listing { revision: head.revision, entries } }))
    }

    fn failed(&self, detail: &str) -> StoreError {
        StoreError::Io { path: self.path.clone(), detail: detail.to_owned() }
    }
}

/// Adds up what is written.
struct Summing<W> {
    out: W,
    sum: Context,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_what_is_damaged_or_anothers_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("saved");
        let disk = Disk::new(path.clone(), "etcd".to_owned());
        assert_eq!(disk.load(), Ok(None));
        let entry = |key: &str| Entry {
            key: key.into(),
            value: b"{}".as_slice().into(),
            create_revision: 3,
            mod_revision: 4,
            expires_at_ms: None,
        };
        for entries in [vec![], vec![entry("/routes/1"), entry("/routes/2")]] {
            let saved = Saved { unix_ms: 7, listing: Listing { revision: 9, entries } };
            disk.save(&saved).unwrap();
            assert_eq!(disk.load(), Ok(Some(saved)));
        }
        assert_eq!(Disk::new(path.clone(), "other".to_owned()).load(), Ok(None));
        let whole = fs::read(&path).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert!(matches!(disk.load(), Err(StoreError::Damaged { .. })), "byte {at}");
        }
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(disk.load(), Err(StoreError::Damaged { .. })));
    }
}
