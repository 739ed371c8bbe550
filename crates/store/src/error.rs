//! What can go wrong with a store, in words that say what to do.

use std::path::PathBuf;

use thiserror::Error;

/// Why a store refuses or fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The request breaks one of the [`limits`](crate::limits) or is contradictory; it was not tried.
    #[error("{0}")]
    Invalid(String),
    /// The history asked for is no longer kept.
    #[error("history before revision {oldest} is no longer kept")]
    Compacted {
        /// The oldest revision with which the same call would succeed.
        oldest: u64,
    },
    /// The revision asked for has not happened.
    #[error("the newest revision is {newest}")]
    Future {
        /// The newest revision.
        newest: u64,
    },
    /// Another process has the store open.
    #[error(
        "the store {} is in use{}; stop that process, or start with another --data-dir",
        .path.display(),
        .holder.map_or_else(|| " by another process".to_owned(), |pid| format!(" by process {pid}"))
    )]
    Locked {
        /// The store's file.
        path: PathBuf,
        /// The process that has it, where known.
        holder: Option<u32>,
    },
    /// The file is a store that was damaged outside the gateway (truncated, overwritten, failing disk).
    #[error(
        "the store {} is damaged ({detail}); nothing was deleted: put a backup in its place, or move it away to \
         start with an empty configuration",
        .path.display()
    )]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The file is something else than a store.
    #[error(
        "{} is not a configuration store ({detail}); it was left as it is: move it away, or start with another \
         --data-dir",
        .path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How that was seen.
        detail: String,
    },
    /// A newer version of the gateway has written the file.
    #[error(
        "the store {} was written by a newer version (layout {found}, this one knows up to {supported}); run that \
         version, or restore a backup made before the upgrade",
        .path.display()
    )]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// The layout found.
        found: u64,
        /// The newest layout that this version reads.
        supported: u64,
    },
    /// The operating system refused: permissions, a full disk, a failing one.
    #[error("the store {}: {detail}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's words.
        detail: String,
    },
    /// The store lost or replaced the configuration that the gateway serves, and no operator has accepted that.
    #[error(
        "the config source is rejected ({0}); writes are refused until its contents are restored, or accepted with \
         `tidegate config accept`"
    )]
    Rejected(String),
    /// A write failed in a way that leaves open whether it was stored. Read before trying again.
    #[error("the change may or may not have been stored: {0}")]
    Unknown(String),
    /// The store has been closed, or can't be reached.
    #[error("the store is not available: {0}")]
    Unavailable(String),
}
