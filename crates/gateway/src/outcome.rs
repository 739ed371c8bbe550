//! `tidegate.reload` in the data directory: what came of the last reload, for the `tidegate reload` that asked for it.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// The name of the file in the data directory.
const NAME: &str = "tidegate.reload";

/// The first line of the file where the configuration was applied.
const APPLIED: &str = "applied";

/// How long a reload may take: building the snapshot of 100,000 routes takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often the file is looked for.
const POLL: Duration = Duration::from_millis(10);

/// What came of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the configuration is active now; else nothing has changed.
    pub applied: bool,
    /// What the operator should know: why it was refused, or what waits for a restart. May have several lines.
    pub words: String,
}

impl Outcome {
    /// Puts the outcome in the place of the one before.
    ///
    /// # Errors
    /// When the data directory can't be written.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(data_dir)?;
        writeln!(file, "{}", if self.applied { APPLIED } else { "refused" })?;
        file.write_all(self.words.as_bytes())?;
        file.persist(data_dir.join(NAME))?;
        Ok(())
    }

    fn read(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(data_dir.join(NAME)).ok()?;
        let (first, words) = text.split_once('\n')?;
        Some(Self { applied: first == APPLIED, words: words.to_owned() })
    }
}

/// Forgets the outcome of an earlier reload.
pub fn forget(data_dir: &Path) {
    // Without the file there is nothing to forget; where it can't be removed, it can't be read either.
    let _ = std::fs::remove_file(data_dir.join(NAME));
}

/// Waits for the outcome as long as `runs` says that the process is there. `None`: it ended, or took too long.
pub fn wait(data_dir: &Path, runs: impl Fn() -> bool) -> Option<Outcome> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(outcome) = Outcome::read(data_dir) {
            return Some(outcome);
        }
        if !runs() {
            return None;
        }
        std::thread::sleep(POLL);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        forget(dir.path());
        assert_eq!(wait(dir.path(), || false), None);
        for applied in [true, false] {
            let outcome = Outcome { applied, words: "one\ntwo".to_owned() };
            outcome.write(dir.path()).unwrap();
            assert_eq!(wait(dir.path(), || true), Some(outcome));
            forget(dir.path());
            assert_eq!(wait(dir.path(), || false), None);
        }
    }
}
