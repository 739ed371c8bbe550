//! Files that a configuration names, read as a whole: regular ones up to a size.
//!
//! `/dev/zero` never ends, a FIFO waits for its writer, and either would hang a start or a reload.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The largest file of certificates, keys or credentials in bytes. A bundle of 1,000 authorities has 1.5 MiB.
pub const CREDENTIALS_BYTES_MAX: u64 = 4 << 20;

/// Returns the content of the regular file at `path`; links are followed.
///
/// # Errors
/// Those of the system, [`io::ErrorKind::InvalidInput`] where it is no regular file, and
/// [`io::ErrorKind::FileTooLarge`] where it has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Without NONBLOCK a FIFO would be waited for before its type is known; regular files ignore it.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let found = if kind.is_dir() {
            "a directory"
        } else if kind.is_fifo() {
            "a FIFO"
        } else {
            "a device"
        };
        let message = format!("it is {found}, not a regular file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    bounded(file, bytes_max)
}

/// As [`read`], for text.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::InvalidData`] where it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(read(path, bytes_max)?)
}

/// As [`read_text`], also from a pipe or a device: for a file that the command line names.
///
/// # Errors
/// As [`read_text`], without those of the file's type.
pub fn read_argument(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(bounded(File::open(path)?, bytes_max)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    let not_utf8 = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8");
    String::from_utf8(bytes).map_err(not_utf8)
}

/// The size is looked at before anything is read; what grows meanwhile, or has no size, is cut off one byte later.
fn bounded(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    if size <= bytes_max {
        file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    if size > bytes_max || bytes.len() as u64 > bytes_max {
        let message = format!("it is larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn regular_files_alone_are_read_and_only_up_to_their_bound() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        std::fs::write(at("empty"), "").unwrap();
        std::fs::write(at("latin"), b"\xe4").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        File::create(at("sparse")).unwrap().set_len(10 << 30).unwrap();
        for (name, expected) in [
            ("file", Ok("12345")),
            ("link", Ok("12345")),
            ("empty", Ok("")),
            ("latin", Err("it is not valid UTF-8")),
            ("none", Err("No such file or directory (os error 2)")),
            (".", Err("it is a directory, not a regular file")),
            ("fifo", Err("it is a FIFO, not a regular file")),
            ("zero", Err("it is a device, not a regular file")),
            ("socket", Err("No such device or address (os error 6)")),
            ("sparse", Err("it is larger than 5 bytes")),
        ] {
            let found = read_text(&at(name), 5).map_err(|error| error.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{name}");
        }
        assert_eq!(read(&at("file"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // A file of /proc has no size.
        assert!(read(Path::new("/proc/self/status"), 100_000).is_ok_and(|bytes| !bytes.is_empty()));
        let endless = read_argument(&at("zero"), 5).unwrap_err();
        assert_eq!(endless.to_string(), "it is larger than 5 bytes");
    }
}
