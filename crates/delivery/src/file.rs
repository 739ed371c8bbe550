//! A file that entries are appended to, a line each.

use crate::{Delivery, Destination};
use observe::append_to;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use stdx::Folders;

/// A log file; it and its folder are made where missing. It is kept open, and opened anew when log rotation asks for it.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    delivery: Arc<Delivery>,
    allowed: Folders,
    /// With the count of reopenings by then.
    open: Mutex<Option<(File, u64)>>,
}

impl LogFile {
    /// The file at `path`, opened with the first entry. `None` where it is outside of `allowed`.
    #[must_use]
    pub fn new(path: &Path, delivery: Arc<Delivery>, allowed: &Folders) -> Option<Self> {
        let path = delivery.resolve(path);
        let file = Self { path, delivery, allowed: allowed.clone(), open: Mutex::default() };
        file.allowed.allow(&file.path).then_some(file)
    }

    /// Opens the file, unless a link leads out of the allowed folders by now.
    fn open(&self) -> io::Result<File> {
        if !self.allowed.allow(&self.path) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "outside of apisix.log_roots"));
        }
        append_to(&self.path)
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
            None => self.open().map_err(failed)?,
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
        let file =
            LogFile::new(&path, Arc::clone(&delivery), &Folders::below([dir.path().to_owned()])).unwrap();
        file.send(&[b"1".to_vec(), b"2".to_vec()]).unwrap();
        let moved = dir.path().join("logs/a.log.1");
        std::fs::rename(&path, &moved).unwrap();
        file.send(&[b"3".to_vec()]).unwrap();
        delivery.reopen_files();
        file.send(&[b"4".to_vec()]).unwrap();
        assert_eq!(std::fs::read_to_string(moved).unwrap(), "1\n2\n3\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "4\n");
    }

    #[test]
    fn nothing_outside_of_the_allowed_folders_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, outside) = (dir.path().join("logs"), dir.path().join("outside"));
        std::fs::create_dir_all(&outside).unwrap();
        let allowed = Folders::below([logs.clone()]);
        let file =
            |path: &str| LogFile::new(Path::new(path), Arc::new(Delivery::below(dir.path())), &allowed);
        assert!(file("outside/a.log").is_none() && file("logs/../outside/a.log").is_none());
        assert!(file("/etc/cron.d/a").is_none() && file("").is_none());
        // A link that was made after the check.
        let file = file("logs/new/a.log").unwrap();
        std::fs::create_dir(&logs).unwrap();
        std::os::unix::fs::symlink(&outside, logs.join("new")).unwrap();
        assert!(file.send(&[b"1".to_vec()]).unwrap_err().contains("apisix.log_roots"));
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
