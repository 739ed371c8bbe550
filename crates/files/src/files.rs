//! The files that one worker serves, and what it remembers of them.

use crate::accept;
use crate::answer::Answer;
use crate::body::Body;
use crate::compress::compress;
use crate::document::{Document, Found, Held, Representation, Slot, read_whole};
use crate::find::{self, Target};
use crate::generations::Generations;
use crate::listing;
use crate::query::Query;
use crate::redirect;
use crate::site::Site;
use crate::variants::{Key, Variants};
use model::resource::{Compress, Encoding};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The longest file that is compressed while the worker waits, which takes about a millisecond. For longer ones there is
/// a [`Job`].
const INLINE_BYTES_MAX: u64 = 64 * 1024;

/// One worker's open files. Not shared: what workers have in common is [`Variants`].
#[derive(Debug)]
pub struct Files {
    kept: Generations<Place, Rc<Kept>>,
    /// Where a request's [`Place`] is put together: looking one up allocates nothing.
    place: Vec<u8>,
    variants: Arc<Variants>,
    held: Held,
    /// How many files may be open.
    open_max: u64,
}

/// What [`Files::answer`] comes to.
#[derive(Debug)]
pub enum Outcome {
    /// The answer.
    Answer(Answer),
    /// Something is to be compressed first: run the job on a thread that may be busy for a while, then ask again.
    Job(Job),
}

/// Compresses one file and leaves it where [`Files::answer`] finds it.
#[derive(Debug)]
pub struct Job {
    file: Arc<File>,
    length: u64,
    encoding: Encoding,
    settings: Compress,
    key: Key,
    variants: Arc<Variants>,
}

/// The site's `uid`, eight bytes, and the path in it.
type Place = Box<[u8]>;

#[derive(Debug)]
struct Kept {
    document: Rc<Document>,
    /// When the file system was asked last.
    checked_ms: Cell<u64>,
}

impl Files {
    /// No files yet; `variants` are shared by all workers. Of files, and of compressed forms beside them, about `open_max`
    /// are kept open.
    #[must_use]
    pub fn new(variants: Arc<Variants>, open_max: u64) -> Self {
        Self { kept: Generations::new(), place: Vec::new(), variants, held: Held::default(), open_max }
    }

    /// The answer to a GET or HEAD request. `now_ms` is any clock that doesn't go back. With `may_wait` a long file may
    /// ask for a [`Job`] first; without, it is then answered as it is.
    ///
    /// # Errors
    /// The file system's, where it can't say what is there (too many open files): a 500.
    pub fn answer(
        &mut self,
        site: &Site,
        query: &Query<'_>,
        now_ms: u64,
        may_wait: bool,
    ) -> io::Result<Outcome> {
        self.place.clear();
        self.place.extend_from_slice(&site.uid.to_ne_bytes());
        self.place.extend_from_slice(query.path);
        let kept = self.kept.get(self.place.as_slice());
        if let Some(kept) = &kept
            && now_ms.saturating_sub(kept.checked_ms.get()) < site.valid_ms
        {
            return self.document(site, query, &kept.document, may_wait);
        }
        let target = match find::target(site, query.path) {
            // What is open for later is in the way of what is asked for now.
            Err(error) if too_many_files(&error) => {
                self.kept.clear();
                find::target(site, query.path)?
            }
            found => found?,
        };
        match target {
            Target::File(found) => {
                let kept = match kept.filter(|kept| kept.document.is(&found)) {
                    Some(same) => same,
                    None => self.keep(site, *found, now_ms),
                };
                kept.checked_ms.set(now_ms);
                self.document(site, query, &kept.document, may_wait)
            }
            Target::Slash => {
                let mut answer = Answer::status(301);
                let location = redirect::with_slash(query.path, query.query);
                answer.fields = crate::Fields::Own(vec![("Location", location)]);
                Ok(Outcome::Answer(answer))
            }
            Target::Listing(folder) => {
                let html = listing::page(&folder, query.path, site.hidden)?;
                Ok(Outcome::Answer(Answer::html(200, html)))
            }
            Target::Status(status) => self.page(site, status).map(Outcome::Answer),
        }
    }

    /// The site's page for a status, or the status alone.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn page(&mut self, site: &Site, status: u16) -> io::Result<Answer> {
        let page = match site.error_pages.get(&status) {
            Some(path) => find::page(site, path)?,
            None => None,
        };
        match page {
            Some(found) => {
                let document = Document::new(site, *found, &self.held);
                Answer::page(status, &document.plain)
            }
            None => Ok(Answer::status(status)),
        }
    }

    /// Forgets files that nobody has asked for in `inactive_ms`. To be called now and then.
    pub fn sweep(&mut self, inactive_ms: u64, now_ms: u64) {
        self.kept.sweep(inactive_ms, now_ms);
    }

    /// Remembers what was found at the place that was asked for last.
    fn keep(&mut self, site: &Site, found: Found, now_ms: u64) -> Rc<Kept> {
        self.kept.sweep(site.inactive_ms, now_ms);
        let document = Rc::new(Document::new(site, found, &self.held));
        let kept = Rc::new(Kept { document, checked_ms: Cell::new(now_ms) });
        self.kept.insert(self.place.as_slice().into(), Rc::clone(&kept), site.open_files_max, now_ms);
        if self.held.files() > self.open_max {
            self.kept.turn(now_ms);
        }
        kept
    }

    /// The answer with a document, or what stands for it where the request can't have it.
    fn document(
        &mut self,
        site: &Site,
        query: &Query<'_>,
        document: &Rc<Document>,
        may_wait: bool,
    ) -> io::Result<Outcome> {
        let outcome = self.chosen(site, query, document, may_wait)?;
        match outcome {
            Outcome::Answer(Answer { status, fields, body: Body::None }) if status >= 400 => {
                let page = self.page(site, status)?;
                Ok(Outcome::Answer(page.with_fields(&fields)))
            }
            other => Ok(other),
        }
    }

    /// The answer with the form of a document that the client likes best.
    fn chosen(
        &self,
        site: &Site,
        query: &Query<'_>,
        document: &Rc<Document>,
        may_wait: bool,
    ) -> io::Result<Outcome> {
        // Ranges are of the file as it is: a client that resumes a download wants no other bytes.
        let wanted = query.accept_encoding.filter(|_| query.conditions.range.is_none());
        let Some(accepted) = wanted.filter(|_| !site.offered.is_empty()) else {
            return Answer::of(query, Rc::clone(&document.plain)).map(Outcome::Answer);
        };
        let mut offered = [Encoding::Br; 3];
        let mut count = 0;
        for encoding in &site.offered {
            if !matches!(document.slot(*encoding), Slot::Absent) {
                offered[count] = *encoding;
                count += 1;
            }
        }
        let Some(encoding) = accept::choose(accepted, &offered[..count]) else {
            return Answer::of(query, Rc::clone(&document.plain)).map(Outcome::Answer);
        };
        match self.encoded(site, document, encoding, may_wait)? {
            Encoded::Ready(ready) => Answer::of(query, ready).map(Outcome::Answer),
            Encoded::Plain => Answer::of(query, Rc::clone(&document.plain)).map(Outcome::Answer),
            Encoded::Job(job) => Ok(Outcome::Job(job)),
        }
    }

    /// The document in one encoding, compressed now or before.
    fn encoded(
        &self,
        site: &Site,
        document: &Document,
        encoding: Encoding,
        may_wait: bool,
    ) -> io::Result<Encoded> {
        let pending = match document.slot(encoding) {
            Slot::Ready(ready) => return Ok(Encoded::Ready(ready)),
            state => matches!(state, Slot::Pending),
        };
        let key = document.key(site, encoding);
        let variant = match (self.variants.get(&key), document.plain.file()) {
            (Some(known), _) => known,
            (None, None) => None,
            // It is compressed once; whoever comes meanwhile gets the plain file. So does who had it compressed, where it
            // was dropped at once for want of room.
            (None, Some(_)) if pending => {
                if !may_wait {
                    document.set_slot(encoding, Slot::Unknown);
                }
                return Ok(Encoded::Plain);
            }
            (None, Some(file)) => {
                let length = document.plain.length;
                let settings = site.compress.clone();
                let variants = Arc::clone(&self.variants);
                let job = Job { file: Arc::clone(file), length, encoding, settings, key, variants };
                if length > INLINE_BYTES_MAX {
                    if !may_wait {
                        return Ok(Encoded::Plain);
                    }
                    document.set_slot(encoding, Slot::Pending);
                    return Ok(Encoded::Job(job));
                }
                job.made()?
            }
        };
        let Some(bytes) = variant else {
            document.set_slot(encoding, Slot::Absent);
            return Ok(Encoded::Plain);
        };
        let ready = Rc::new(document.compressed(site, encoding, bytes));
        // What doesn't fit into this worker's memory is looked up anew each time.
        let slot = if ready.is_held() { Slot::Ready(Rc::clone(&ready)) } else { Slot::Unknown };
        document.set_slot(encoding, slot);
        Ok(Encoded::Ready(ready))
    }
}

/// Whether the process, or the machine, can open no more files.
fn too_many_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

enum Encoded {
    Ready(Rc<Representation>),
    Plain,
    Job(Job),
}

impl Job {
    /// Does it; blocks for as long as that takes.
    ///
    /// # Errors
    /// The file's, or the encoder's. The file is then sent as it is from then on.
    pub fn run(self) -> io::Result<()> {
        let (key, variants) = (self.key, Arc::clone(&self.variants));
        self.made().map(|_| ()).inspect_err(|_| variants.insert(key, None))
    }

    fn made(self) -> io::Result<Option<Arc<[u8]>>> {
        let plain = read_whole(&self.file, self.length)?;
        let variant = compress(&plain, self.encoding, &self.settings)?;
        self.variants.insert(self.key, variant.clone());
        Ok(variant)
    }
}

#[cfg(test)]
mod tests;
