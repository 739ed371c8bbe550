//! `tidegate.pid` in the data directory: who runs there.
//!
//! The lock on the file says that somebody runs; the number in it says who. A number without a lock is left over from a
//! process that was killed. The file is emptied at the end and never removed: between opening and locking a removed
//! file, two processes could each hold a lock of their own.
//!
//! `tidegate.config` beside it says which configuration file that process reads, for `tidegate reload`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The name of the file in the data directory.
const NAME: &str = "tidegate.pid";

/// The name of the file with the configuration file's path.
const CONFIG_NAME: &str = "tidegate.config";

/// Longer than any path (`PATH_MAX` of Linux).
const PATH_BYTES_MAX: u64 = 4096;

/// Longer than any pid.
const MAX_BYTES: u64 = 32;

/// The claim on a data directory, held while the process runs.
#[derive(Debug)]
pub struct PidFile {
    file: File,
    path: PathBuf,
    /// The pid that an earlier process left behind when it was killed.
    pub left_over: Option<u32>,
}

/// Why a data directory can't be claimed.
#[derive(Debug)]
pub enum ClaimError {
    /// Somebody runs there; the pid is missing in the instant before it is written.
    Running(Option<u32>),
    /// The file can't be used.
    Io(PathBuf, io::Error),
}

impl PidFile {
    /// Claims the directory, which has to exist, for this process.
    pub fn claim(data_dir: &Path) -> Result<Self, ClaimError> {
        let path = data_dir.join(NAME);
        let fail = |error| ClaimError::Io(path.clone(), error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ClaimError::Running(read_pid(&file))),
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        let left_over = read_pid(&file);
        file.set_len(0).and_then(|()| file.rewind()).map_err(fail)?;
        writeln!(file, "{}", std::process::id()).map_err(fail)?;
        Ok(Self { file, path, left_over })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Nothing to be done about a failure: the number is then taken for what it is, a left-over.
        let _ = self.file.set_len(0);
    }
}

/// The pid of the process that runs with this data directory; `None` where none does.
pub fn running(data_dir: &Path) -> io::Result<Option<u32>> {
    let file = match File::open(data_dir.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(read_pid(&file)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Records the configuration file that the process with this data directory reads; `None` for the defaults.
pub fn record_config(data_dir: &Path, config: Option<&Path>) -> io::Result<()> {
    let path = match config {
        Some(path) => std::path::absolute(path)?,
        None => PathBuf::new(),
    };
    fs::write(data_dir.join(CONFIG_NAME), path.as_os_str().as_bytes())
}

/// The configuration file that the process with this data directory reads: `Some(None)` for the defaults, `None` where
/// nothing is recorded.
pub fn recorded_config(data_dir: &Path) -> Option<Option<PathBuf>> {
    let bytes = stdx::file::read(&data_dir.join(CONFIG_NAME), PATH_BYTES_MAX).ok()?;
    Some((!bytes.is_empty()).then(|| PathBuf::from(OsString::from_vec(bytes))))
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl std::fmt::Display for ClaimError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Running(Some(pid)) => write!(f, "process {pid} runs already with this data directory"),
            Self::Running(None) => f.write_str("another process is starting with this data directory"),
            Self::Io(path, error) => write!(f, "the pid file {} can't be used: {error}", path.display()),
        }
    }
}

impl std::error::Error for ClaimError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_runs_in_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(running(dir.path()).unwrap(), None);
        let claim = PidFile::claim(dir.path()).unwrap();
        let own = std::process::id();
        assert_eq!((running(dir.path()).unwrap(), claim.left_over), (Some(own), None));
        let second = PidFile::claim(dir.path()).unwrap_err();
        assert_eq!(second.to_string(), format!("process {own} runs already with this data directory"));
        drop(claim);
        assert_eq!(running(dir.path()).unwrap(), None);
    }

    #[test]
    fn a_left_over_file_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), "4194999 \n").unwrap();
        assert_eq!(running(dir.path()).unwrap(), None);
        assert_eq!(PidFile::claim(dir.path()).unwrap().left_over, Some(4_194_999));
        fs::write(dir.path().join(NAME), "rubbish".repeat(100)).unwrap();
        assert_eq!(PidFile::claim(dir.path()).unwrap().left_over, None);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        assert!(matches!(PidFile::claim(Path::new("/nonexistent")), Err(ClaimError::Io(..))));
    }
}
