//! The embedded backend: the common suite, and what only a file can do wrong.

mod damage;
mod kill;
mod opening;
mod presence;
mod retention;
mod suite;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::{Embedded, EmbeddedConfig};
use crate::Clock;

/// A clock that moves when told.
#[derive(Debug, Default)]
struct HandClock(AtomicU64);

impl HandClock {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn unix_ms(&self) -> u64 {
        1_700_000_000_000 + self.0.load(Ordering::Relaxed)
    }
}

/// A directory that goes with the test, and the store's file in it.
fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data").join("store.redb");
    (directory, path)
}

fn config(path: &std::path::Path) -> EmbeddedConfig {
    EmbeddedConfig {
        clock: Arc::new(HandClock::default()),
        sweep_interval: Duration::from_millis(5),
        ..EmbeddedConfig::new(path)
    }
}

fn open(path: &std::path::Path) -> Embedded {
    Embedded::open(config(path)).unwrap()
}
