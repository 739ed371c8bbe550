//! The standalone file: `apisix.yaml` or `apisix.json`, followed as it changes.
//!
//! What the file says is held by a store in memory, so that listings, watches and history are what they are elsewhere.
//! A file that can't be used changes nothing.

mod document;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ::document::limits::BYTES_MAX;
use ::document::{Diagnostic, Report, codes};
use tokio::sync::watch;

pub use self::document::{
    Document, MODIFIED_INDEX, Part, PluginName, check_root, no_end_mark, take_apart, unknown_collection,
};
use crate::{
    BoxFuture, Embedded, EmbeddedConfig, Entry, Listing, RevisionRecord, Store, StoreError, Txn, TxnOutcome,
    Watch,
};
pub use ::document::{Format, Position};

/// How often the file is looked at. A look is one `stat`; notifications by the kernel miss what network file systems
/// and Kubernetes' symbolic links do.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Where variables come from.
pub type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Returns what is wrong among the entries of a document, by store key, beyond what is wrong with each of them.
pub type Check = Arc<dyn Fn(&BTreeMap<String, Arc<[u8]>>) -> Vec<Diagnostic> + Send + Sync>;

/// A configuration in a file.
pub struct File {
    path: PathBuf,
    format: Format,
    lookup: Lookup,
    memory: Embedded,
    /// Whether there was a configuration before this process.
    had_resources: bool,
    check: Option<Check>,
    state: Mutex<State>,
    plugins: watch::Sender<Option<Vec<PluginName>>>,
}

#[derive(Default)]
struct State {
    /// What the file looked like when it was last read.
    seen: Option<Seen>,
    /// Whether it was usable once.
    loaded: bool,
    /// Where the resources stand in what is in force.
    places: BTreeMap<String, Position>,
    /// Why it is not in force as it stands.
    error: Option<String>,
}

/// What tells one version of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl File {
    /// The file at `path`, which is read when [`reload`](Self::reload) is first called.
    ///
    /// # Errors
    /// [`StoreError::Io`] where no thread can be had.
    pub fn new(path: impl Into<PathBuf>, format: Format, lookup: Lookup) -> Result<Self, StoreError> {
        let path = path.into();
        let memory = Embedded::in_memory(EmbeddedConfig::new(&path))?;
        let (state, plugins) = (Mutex::default(), watch::Sender::new(None));
        Ok(Self { path, format, lookup, memory, had_resources: false, check: None, state, plugins })
    }

    /// The same, refusing a first version without any collection where an earlier process had resources.
    #[must_use]
    pub fn with_earlier(self, had_resources: bool) -> Self {
        Self { had_resources, ..self }
    }

    /// The same, reporting what `check` finds in each version of the file that is used.
    #[must_use]
    pub fn with_check(self, check: Check) -> Self {
        Self { check: Some(check), ..self }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the document's `plugins` say, now and later.
    #[must_use]
    pub fn plugins(&self) -> watch::Receiver<Option<Vec<PluginName>>> {
        self.plugins.subscribe()
    }

    /// Why the file as it stands is not in force; `None` where it is.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// Where a resource stands, as `FILE:LINE:COLUMN`.
    #[must_use]
    pub fn place(&self, key: &str) -> Option<String> {
        let place = self.state().places.get(key).copied()?;
        Some(format!("{}:{place}", self.path.display()))
    }

    /// Reads the file and puts it in force, where it is another than before. Whether it was.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] with file, line and column where it can't be used; what was in force stays.
    pub async fn reload(&self) -> Result<bool, StoreError> {
        let seen = self.look();
        if seen.is_some() && self.state().seen == seen {
            return Ok(false);
        }
        let put = self.put_in_force().await;
        let mut state = self.state();
        // Also where it is refused: it is not read again until it changes.
        state.seen = seen;
        match put {
            Ok(()) => {
                state.error = None;
                state.loaded = true;
                Ok(true)
            }
            Err(error) => {
                let said = error.to_string();
                let known = state.error.as_ref() == Some(&said);
                state.error = Some(said);
                if known { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Follows the file for ever.
    pub async fn follow(&self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            match self.reload().await {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(target: "notice", path = %self.path.display(), "the configuration was read again");
                }
                Err(error) => tracing::error!("{error}; what was in force stays"),
            }
        }
    }

    async fn put_in_force(&self) -> Result<(), StoreError> {
        let (path, format, lookup) = (self.path.clone(), self.format, Arc::clone(&self.lookup));
        let check = self.check.clone();
        let read = tokio::task::spawn_blocking(move || {
            let refuse = |mistakes| StoreError::Invalid(lines(&path, mistakes).join("\n"));
            let text = stdx::file::read_text(&path, BYTES_MAX).map_err(|error| {
                let message = format!("the file can't be read: {error}");
                refuse(vec![Diagnostic::error(codes::UNREADABLE_FILE, message)])
            })?;
            let mut document = Document::read(&text, format, &*lookup).map_err(refuse)?;
            for found in check.iter().flat_map(|check| check(&document.entries)) {
                let at = document.places.get(&found.resource).copied();
                document.mistakes.push(found.at(at));
            }
            Ok(document)
        });
        let document = read.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        if document.collections == 0 && self.has_resources().await? {
            let message = "the file names no collection, so it may not be complete";
            let mistake = Diagnostic::error(codes::INCOMPLETE_FILE, message)
                .hint("to remove every resource, name an empty collection: `routes: []`");
            return Err(StoreError::Invalid(lines(&self.path, vec![mistake]).join("\n")));
        }
        for line in lines(&self.path, document.mistakes) {
            tracing::error!("{line}");
        }
        // Plugins first: resources may need them.
        self.plugins.send_if_modified(|plugins| {
            let changed = *plugins != document.plugins;
            plugins.clone_from(&document.plugins);
            changed
        });
        // Places too: who hears of a resource may ask where it stands.
        self.state().places = document.places;
        self.memory.replace(document.entries, None).await?;
        Ok(())
    }

    /// Whether there is something to lose.
    async fn has_resources(&self) -> Result<bool, StoreError> {
        let first = self.had_resources && !self.state().loaded;
        Ok(first || !self.memory.list("").await?.entries.is_empty())
    }

    fn look(&self) -> Option<Seen> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(&self.path).ok()?;
        let modified = metadata.modified().ok();
        Some(Seen { modified, length: metadata.len(), inode: metadata.ino() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store in memory, or why there is nothing in it.
    fn loaded(&self) -> Result<&Embedded, StoreError> {
        let state = self.state();
        match (state.loaded, &state.error) {
            (true, _) => Ok(&self.memory),
            (false, Some(error)) => Err(StoreError::Unavailable(error.clone())),
            (false, None) => Err(StoreError::Unavailable(format!("{} is not read yet", self.path.display()))),
        }
    }
}

impl Store for File {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move { self.loaded()?.get(key).await })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move { self.loaded()?.list(prefix).await })
    }

    /// In memory alone: the file is the operator's. It lasts until the file says otherwise.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        Box::pin(async move { self.loaded()?.txn(txn).await })
    }

    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        Box::pin(async move { self.loaded()?.watch(from).await })
    }

    fn history(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        Box::pin(async move { self.loaded()?.history(before, limit).await })
    }

    fn value_at<'a>(
        &'a self,
        key: &'a str,
        revision: u64,
    ) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move { self.loaded()?.value_at(key, revision).await })
    }

    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.loaded()?.compact(revision).await })
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Each mistake of the file on one line.
fn lines(path: &Path, mistakes: Vec<Diagnostic>) -> Vec<String> {
    Report::of_file(&path.display().to_string(), mistakes).entries().collect()
}
