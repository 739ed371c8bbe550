//! Whether the file at the store's path is still the one that is open.
//!
//! An open file goes on working after it was removed or another one was put in its place: every write would be
//! acknowledged, and gone with the next start.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::{Clock, Health, StoreError, SystemClock};

/// The file that is open, compared with what its path leads to.
#[derive(Debug)]
pub(crate) struct Presence {
    path: PathBuf,
    opened: Mutex<Opened>,
    health: watch::Sender<Health>,
}

#[derive(Debug, Clone, Copy)]
struct Opened {
    /// The device and the inode.
    identity: (u64, u64),
    /// Its size after the last commit: nobody else may make it shorter.
    bytes: u64,
    /// What was cut off is lost, whatever the file's size is afterwards.
    truncated: bool,
}

impl Opened {
    fn of(metadata: &Metadata) -> Self {
        Self { identity: (metadata.dev(), metadata.ino()), bytes: metadata.len(), truncated: false }
    }
}

impl Presence {
    /// The presence of the file at `path`, which has just been opened.
    ///
    /// # Errors
    /// [`StoreError::Io`] where there is none.
    pub(crate) fn new(path: &Path) -> Result<Self, StoreError> {
        let opened = Mutex::new(Opened::of(&metadata(path)?));
        Ok(Self { path: path.to_owned(), opened, health: watch::Sender::new(Health::Following) })
    }

    /// [`Health::Following`], or [`Health::Detached`] while the file isn't where it was.
    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Looks at the path, and logs what has changed since the last look.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where another file, or none, is there, or the file was truncated.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let mut opened = self.opened();
        let missing = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        let reason = match fs::metadata(&self.path) {
            Err(error) if missing(&error) => Some("was removed"),
            // Who may not look may still write: the open file is there as far as is known.
            Err(_) => None,
            Ok(found) => {
                let found = Opened::of(&found);
                let same = found.identity == opened.identity;
                opened.truncated |= same && found.bytes < opened.bytes;
                match (same, opened.truncated) {
                    (false, _) => Some("was replaced by another one"),
                    (true, true) => Some("was truncated"),
                    (true, false) => None,
                }
            }
        };
        drop(opened);
        self.tell(reason);
        match reason {
            None => Ok(()),
            Some(reason) => Err(StoreError::Unavailable(self.explain(reason))),
        }
    }

    /// Takes note of the file's size after a commit of the gateway's own.
    ///
    /// # Errors
    /// As [`check`](Self::check): what was committed is in a file that the next start won't find.
    pub(crate) fn committed(&self) -> Result<(), StoreError> {
        if let Ok(found) = fs::metadata(&self.path).map(|found| Opened::of(&found)) {
            let mut opened = self.opened();
            if found.identity == opened.identity {
                opened.bytes = found.bytes;
            }
        }
        self.check()
    }

    /// The file at the path has been opened again.
    pub(crate) fn reopened(&self) -> Result<(), StoreError> {
        *self.opened() = Opened::of(&metadata(&self.path)?);
        Ok(())
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, reason: &str) -> String {
        format!(
            "its file {} {reason} while the gateway runs; the gateway serves what it has loaded and refuses writes: \
             put the file back, or save what is served (`tidegate config dump`) and restart the gateway",
            self.path.display()
        )
    }

    fn tell(&self, reason: Option<&str>) {
        self.health.send_if_modified(|health| match (&*health, reason) {
            (Health::Detached { reason: before, .. }, Some(reason)) if *before == self.explain(reason) => {
                false
            }
            (Health::Detached { .. }, None) => {
                tracing::warn!(path = %self.path.display(), "the configuration store's file is back");
                *health = Health::Following;
                true
            }
            (_, None) => false,
            (_, Some(reason)) => {
                let reason = self.explain(reason);
                tracing::error!(path = %self.path.display(), "configuration store: {reason}");
                *health = Health::Detached { since_unix_ms: SystemClock.unix_ms(), reason };
                true
            }
        });
    }
}

fn metadata(path: &Path) -> Result<Metadata, StoreError> {
    fs::metadata(path).map_err(|error| StoreError::Io { path: path.to_owned(), detail: error.to_string() })
}
