//! A file that entries are appended to, a line each.

use crate::{Delivery, Destination};
use observe::append_to;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A log file; it and its folder are made where missing. It is kept open, and opened anew when log rotation asks for it.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    delivery: Arc<Delivery>,
    /// With the count of reopenings by then.
    open: Mutex<Option<(File, u64)>>,
}

impl LogFile {
    /// The file at `path`, opened with the first entry.
    #[must_use]
    pub fn new(path: &Path, delivery: Arc<Delivery>) -> Self {
        Self { path: delivery.resolve(path), delivery, open: Mutex::default() }
    }
}

impl Destination for LogFile {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        let mut bytes = entries.join(&b"\n"[..]);
        bytes.push(b'\n');
        let failed = |error| format!("{}: {error}", self.path.display());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let reopened = self.delivery.reopened();
        let file = match open.take().filter(|(_, of)| *of == reopened) {
            Some((file, _)) => file,
            None => append_to(&self.path).map_err(failed)?,
        };
        // One write of whole lines, so that those of several writers don't mix.
        let (file, _) = open.insert((file, reopened));
        file.write_all(&bytes).map_err(failed)
    }

    fn at_once(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_a_renamed_file_is_left_when_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/a.log");
        let delivery = Arc::new(Delivery::default());
        let file = LogFile::new(&path, Arc::clone(&delivery));
        file.send(&[b"1".to_vec(), b"2".to_vec()]).unwrap();
        let moved = dir.path().join("logs/a.log.1");
        std::fs::rename(&path, &moved).unwrap();
        file.send(&[b"3".to_vec()]).unwrap();
        delivery.reopen_files();
        file.send(&[b"4".to_vec()]).unwrap();
        assert_eq!(std::fs::read_to_string(moved).unwrap(), "1\n2\n3\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "4\n");
    }
}
