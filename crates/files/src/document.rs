//! A file as it is served: its representations, made when they are first wanted.

use crate::body::Body;
use crate::compress;
use crate::etag;
use crate::root::Identity;
use crate::site::Site;
use crate::variants::Key;
use model::resource::Encoding;
use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stdx::Segment;
use wire::FieldLines;

/// The longest file whose content is kept in memory: a read costs about as much as sending that much does, and longer
/// ones gain little.
const MEMORY_FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Content, compressed or not, that one worker keeps in memory at most: a usual site, or the busiest files of a large one.
const MEMORY_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// A file, with what was found beside it.
#[derive(Debug)]
pub(crate) struct Document {
    /// Below the site's root.
    pub(crate) path: PathBuf,
    pub(crate) plain: Rc<Representation>,
    /// By [`slot`].
    encoded: RefCell<[Slot; 3]>,
    /// What its precompressed forms were when it was looked at, by [`slot`].
    siblings: [Option<Identity>; 3],
}

/// A form in which a file can be had, maybe.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    /// Nobody has asked yet.
    Unknown,
    /// Somebody is compressing it.
    Pending,
    /// It is not to be had.
    Absent,
    /// Here it is.
    Ready(Rc<Representation>),
}

/// One file in one encoding.
#[derive(Debug)]
pub(crate) struct Representation {
    pub(crate) identity: Identity,
    pub(crate) length: u64,
    pub(crate) etag: String,
    /// The fields of a 200 besides `Content-Length`.
    pub(crate) fields: Vec<(&'static str, String)>,
    /// The same as lines: what HTTP/1 sends.
    pub(crate) lines: FieldLines,
    source: Source,
    held: Held,
    /// Whether its bytes count among those that are held.
    counted: Cell<bool>,
}

#[derive(Debug)]
enum Source {
    /// Compressed here.
    Made(Arc<[u8]>),
    /// A file, and its content once that was asked for.
    File(Arc<File>, OnceCell<Arc<[u8]>>),
}

/// What one worker holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Rc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Of content in memory.
    bytes: Cell<u64>,
    /// Open ones.
    files: Cell<u64>,
}

/// Where an encoding stands in arrays.
pub(crate) fn slot(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Br => 0,
        Encoding::Zstd => 1,
        Encoding::Gzip => 2,
    }
}

/// A file that was opened, with those beside it.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) identity: Identity,
    /// By [`slot`].
    pub(crate) siblings: [Option<(File, Identity)>; 3],
}

impl Document {
    pub(crate) fn new(site: &Site, found: Found, held: &Held) -> Self {
        let media_type = site.media_type(&found.path);
        let compressible = !site.compress.encodings.is_empty()
            && compress::wanted(&site.compress, &media_type, found.identity.length);
        let vary = found.siblings.iter().any(Option::is_some) || (compressible && site.compress.vary);
        let describe = Describe { site, media_type: &media_type, vary, held };
        let siblings = [0, 1, 2].map(|at| found.siblings[at].as_ref().map(|(_, identity)| *identity));
        let encoded = std::array::from_fn(|_| if compressible { Slot::Unknown } else { Slot::Absent });
        let mut encoded: [Slot; 3] = encoded;
        for encoding in [Encoding::Br, Encoding::Zstd, Encoding::Gzip] {
            if compressible && !site.compress.encodings.contains(&encoding) {
                encoded[slot(encoding)] = Slot::Absent;
            }
        }
        let plain = describe.representation(
            None,
            found.identity,
            found.identity.length,
            etag::of_file(&found.identity),
            Source::File(Arc::new(found.file), OnceCell::new()),
        );
        for (encoding, sibling) in
            [Encoding::Br, Encoding::Zstd, Encoding::Gzip].into_iter().zip(found.siblings)
        {
            if let Some((file, identity)) = sibling {
                let source = Source::File(Arc::new(file), OnceCell::new());
                let tag = etag::of_file(&identity);
                let ready = describe.representation(Some(encoding), identity, identity.length, tag, source);
                encoded[slot(encoding)] = Slot::Ready(Rc::new(ready));
            }
        }
        Self { path: found.path, plain: Rc::new(plain), encoded: RefCell::new(encoded), siblings }
    }

    /// Whether `found` is what this was made from.
    pub(crate) fn is(&self, found: &Found) -> bool {
        let same = |(at, sibling): (usize, &Option<(File, Identity)>)| {
            sibling.as_ref().map(|(_, identity)| *identity) == self.siblings[at]
        };
        self.path == found.path
            && self.plain.identity == found.identity
            && found.siblings.iter().enumerate().all(same)
    }

    pub(crate) fn slot(&self, encoding: Encoding) -> Slot {
        self.encoded.borrow()[slot(encoding)].clone()
    }

    pub(crate) fn set_slot(&self, encoding: Encoding, state: Slot) {
        self.encoded.borrow_mut()[slot(encoding)] = state;
    }

    /// The name of what compressing this file gives.
    pub(crate) fn key(&self, site: &Site, encoding: Encoding) -> Key {
        Key { identity: self.plain.identity, encoding, level: site.level(encoding) }
    }

    /// The representation that was compressed here.
    pub(crate) fn compressed(&self, site: &Site, encoding: Encoding, bytes: Arc<[u8]>) -> Representation {
        let media_type = site.media_type(&self.path);
        let held = &self.plain.held;
        let describe = Describe { site, media_type: &media_type, vary: site.compress.vary, held };
        let length = bytes.len() as u64;
        let tag = etag::weak(&self.plain.etag);
        let made =
            describe.representation(Some(encoding), self.plain.identity, length, tag, Source::Made(bytes));
        made.count();
        made
    }
}

/// What the representations of one file have in common.
struct Describe<'a> {
    site: &'a Site,
    media_type: &'a str,
    vary: bool,
    held: &'a Held,
}

impl Describe<'_> {
    fn representation(
        &self,
        encoding: Option<Encoding>,
        identity: Identity,
        length: u64,
        etag: String,
        source: Source,
    ) -> Representation {
        let mut fields = vec![
            ("Content-Type", self.media_type.to_owned()),
            ("Last-Modified", http_date(identity.modified_s)),
            ("ETag", etag.clone()),
        ];
        match encoding {
            Some(encoding) => fields.push(("Content-Encoding", encoding.token().to_owned())),
            // Ranges are of the file as it is.
            None => fields.push(("Accept-Ranges", "bytes".to_owned())),
        }
        if self.vary {
            fields.push(("Vary", "Accept-Encoding".to_owned()));
        }
        if let Some(value) = &self.site.cache_control {
            fields.push(("Cache-Control", value.clone()));
        }
        let mut lines = FieldLines::default();
        for (name, value) in &fields {
            lines.push(name, value.as_bytes());
        }
        let held = self.held.clone();
        if matches!(source, Source::File(..)) {
            held.0.files.update(|files| files + 1);
        }
        Representation { identity, length, etag, fields, lines, source, held, counted: Cell::new(false) }
    }
}

impl Representation {
    /// Where the bytes are; read into memory the first time, where they are few enough.
    ///
    /// # Errors
    /// The file's, or `UnexpectedEof` where it has become shorter.
    pub(crate) fn content(&self) -> io::Result<Segment> {
        let (file, kept) = match &self.source {
            Source::Made(bytes) => return Ok(in_memory(bytes)),
            Source::File(file, kept) => (file, kept),
        };
        if let Some(bytes) = kept.get() {
            return Ok(in_memory(bytes));
        }
        if self.length > MEMORY_FILE_BYTES_MAX || !self.count() {
            return Ok(Segment::File(Arc::clone(file), 0, self.length));
        }
        let bytes = self.read(file).inspect_err(|_| self.discount())?;
        Ok(in_memory(kept.get_or_init(|| bytes)))
    }

    /// The content as a body.
    ///
    /// # Errors
    /// As [`Self::content`].
    pub(crate) fn body(&self) -> io::Result<Body> {
        Ok(if self.length == 0 { Body::None } else { Body::One(self.content()?) })
    }

    /// Whether its content is in memory, and counted there.
    pub(crate) fn is_held(&self) -> bool {
        self.counted.get()
    }

    /// Counts its bytes among those that are held, if there is room for them; whether there is.
    fn count(&self) -> bool {
        let after = self.held.0.bytes.get() + self.length;
        let fits = after <= MEMORY_BYTES_MAX;
        if fits {
            self.held.0.bytes.set(after);
            self.counted.set(true);
        }
        fits
    }

    fn discount(&self) {
        if self.counted.take() {
            self.held.0.bytes.update(|bytes| bytes.saturating_sub(self.length));
        }
    }

    /// The whole content, for compressing it.
    pub(crate) fn file(&self) -> Option<&Arc<File>> {
        match &self.source {
            Source::Made(_) => None,
            Source::File(file, _) => Some(file),
        }
    }

    fn read(&self, file: &File) -> io::Result<Arc<[u8]>> {
        read_whole(file, self.length).map(Arc::from)
    }
}

fn in_memory(bytes: &Arc<[u8]>) -> Segment {
    Segment::Memory(Arc::clone(bytes), 0, bytes.len())
}

/// A file's time as an HTTP date. Times before 1970 and after 9999, which have none, become the nearest that has.
fn http_date(modified_s: i64) -> String {
    const YEAR_9999_END_S: u64 = 253_402_300_799;
    let seconds = u64::try_from(modified_s).unwrap_or_default().min(YEAR_9999_END_S);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// So many bytes from a file's start.
pub(crate) fn read_whole(file: &File, length: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

impl Drop for Representation {
    fn drop(&mut self) {
        self.discount();
        if matches!(self.source, Source::File(..)) {
            self.held.0.files.update(|files| files.saturating_sub(1));
        }
    }
}

impl Held {
    /// How many files are open.
    pub(crate) fn files(&self) -> u64 {
        self.0.files.get()
    }

    /// Leaves no room for content.
    #[cfg(test)]
    pub(crate) fn fill(&self) {
        self.0.bytes.set(MEMORY_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_date() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(-1), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
