//! The last configuration on disk: checksummed, and replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};

use crate::{Entry, Listing, StoreError};

/// How the file begins, before the number of its layout.
const MAGIC: &[u8] = b"tidegate last known good ";

/// The layout that is written. Layout 1, which is read too, knew neither the cluster nor earlier versions.
const LAYOUT: u64 = 2;

/// The largest file that is read: fifty times a configuration of 100,000 routes.
const SAVED_BYTES_MAX: u64 = 4 << 30;

/// What a file in the making is called, after the name of the file that it will replace.
const DRAFT_SUFFIX: &str = ".new";

/// A configuration that was in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saved {
    /// When it was saved, in milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// The configuration.
    pub(crate) listing: Listing,
    /// Versions before those in it that are active, or may be: their keys' newest values are unusable.
    pub(crate) earlier: Vec<Entry>,
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
    #[prost(uint64, tag = "5")]
    cluster: u64,
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
    #[prost(bool, tag = "5")]
    earlier: bool,
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
        let directory = self.directory();
        // Readable by its owner only: values hold keys, passwords and certificates.
        let draft = tempfile::Builder::new()
            .prefix(&self.draft_prefix())
            .suffix(DRAFT_SUFFIX)
            .tempfile_in(directory)?;
        let mut out = Summing { out: io::BufWriter::new(draft), sum: Context::new(&SHA256) };
        out.write_all(MAGIC)?;
        writeln!(out, "{LAYOUT}")?;
        let head = Head {
            source: self.source.clone(),
            revision: saved.listing.revision,
            unix_ms: saved.unix_ms,
            count: (saved.listing.entries.len() + saved.earlier.len()) as u64,
            cluster: saved.listing.cluster,
        };
        out.write_all(&head.encode_length_delimited_to_vec())?;
        let newest = saved.listing.entries.iter().map(|entry| (entry, false));
        for (entry, earlier) in newest.chain(saved.earlier.iter().map(|entry| (entry, true))) {
            let row = Row {
                key: entry.key.to_string(),
                value: entry.value.to_vec(),
                create_revision: entry.create_revision,
                mod_revision: entry.mod_revision,
                earlier,
            };
            out.write_all(&row.encode_length_delimited_to_vec())?;
        }
        let Summing { mut out, sum } = out;
        out.write_all(sum.finish().as_ref())?;
        let draft = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        draft.as_file().sync_all()?;
        draft.persist(&self.path)?;
        // The name is durable with the directory, not with the file.
        File::open(directory)?.sync_all()
    }

    fn directory(&self) -> &Path {
        self.path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn draft_prefix(&self) -> String {
        format!(".{}-", self.path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Removes what a crash left of a save.
    fn remove_drafts(&self) {
        let prefix = self.draft_prefix();
        for file in fs::read_dir(self.directory()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&prefix) && name.ends_with(DRAFT_SUFFIX) {
                let _ = fs::remove_file(file.path());
            }
        }
    }

    /// What is there; `None` where nothing is, or what another centre said.
    ///
    /// # Errors
    /// A file that can't be read or is not as it was written.
    pub(crate) fn load(&self) -> Result<Option<Saved>, StoreError> {
        self.remove_drafts();
        let bytes = match stdx::file::read(&self.path, SAVED_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error.to_string())),
            Ok(bytes) => bytes,
        };
        let damaged = || StoreError::Damaged {
            path: self.path.clone(),
            detail: "it is not as it was written".to_owned(),
        };
        let (content, sum) =
            bytes.len().checked_sub(SHA256_OUTPUT_LEN).map(|at| bytes.split_at(at)).ok_or_else(damaged)?;
        if digest(&SHA256, content).as_ref() != sum {
            return Err(damaged());
        }
        let rest = content.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let at = rest.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let (layout, rest) = rest.split_at(at);
        let layout = std::str::from_utf8(layout).ok().and_then(|layout| layout.parse().ok());
        let layout: u64 = layout.ok_or_else(damaged)?;
        if layout > LAYOUT {
            return Err(StoreError::Newer { path: self.path.clone(), found: layout, supported: LAYOUT });
        }
        let mut rest = rest.get(1..).unwrap_or_default();
        let head = Head::decode_length_delimited(&mut rest).map_err(|_| damaged())?;
        if head.source != self.source {
            tracing::warn!(path = %self.path.display(), "the configuration kept is another centre's; it is not used");
            return Ok(None);
        }
        let (mut entries, mut earlier) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let row = Row::decode_length_delimited(&mut rest).map_err(|_| damaged())?;
            let rows = if row.earlier { &mut earlier } else { &mut entries };
            rows.push(Entry {
                key: row.key.into(),
                value: Arc::from(row.value),
                create_revision: row.create_revision,
                mod_revision: row.mod_revision,
                expires_at_ms: None,
            });
        }
        if (entries.len() + earlier.len()) as u64 != head.count {
            return Err(damaged());
        }
        let listing = Listing { revision: head.revision, entries, cluster: head.cluster };
        Ok(Some(Saved { unix_ms: head.unix_ms, listing, earlier }))
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
            let listing = Listing { revision: 9, entries, cluster: 5 };
            let saved = Saved { unix_ms: 7, listing, earlier: vec![entry("/routes/1")] };
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
        let names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["saved"], "no draft is left");
    }

    /// A file of `layout` with one row and no field that layout 1 did not have.
    fn written_as(layout: u64, path: &Path) {
        let mut content = [MAGIC, format!("{layout}\n").as_bytes()].concat();
        let head = Head { source: "etcd".to_owned(), revision: 9, unix_ms: 7, count: 1, cluster: 0 };
        content.extend(head.encode_length_delimited_to_vec());
        let row =
            Row { key: "/routes/1".to_owned(), value: b"{}".to_vec(), mod_revision: 4, ..Row::default() };
        content.extend(row.encode_length_delimited_to_vec());
        let sum = digest(&SHA256, &content);
        content.extend(sum.as_ref());
        fs::write(path, content).unwrap();
    }

    #[test]
    fn an_older_layout_is_read_and_a_newer_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new(directory.path().join("saved"), "etcd".to_owned());
        written_as(1, disk.path());
        let saved = disk.load().unwrap().unwrap();
        assert_eq!((saved.listing.entries.len(), saved.listing.cluster, saved.earlier.len()), (1, 0, 0));
        written_as(3, disk.path());
        assert!(matches!(disk.load(), Err(StoreError::Newer { found: 3, supported: 2, .. })));
    }

    #[test]
    fn what_a_crash_left_of_a_save_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new(directory.path().join("saved"), "etcd".to_owned());
        fs::write(directory.path().join(".saved-x1y2.new"), "half").unwrap();
        fs::write(directory.path().join("other.new"), "another's").unwrap();
        assert_eq!(disk.load(), Ok(None));
        assert!(!directory.path().join(".saved-x1y2.new").exists());
        assert!(directory.path().join("other.new").exists());
    }
}
