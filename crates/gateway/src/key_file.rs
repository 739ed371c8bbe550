//! Keys that the gateway makes at its first start and keeps in the data directory, for their owner's eyes alone.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::rand::{GetRandomFlags, getrandom};
use stdx::Secret;

/// 256 bits, written as 64 hexadecimal digits.
const KEY_BYTES: usize = 32;

/// A key, and whether this start has made it.
#[derive(Debug, PartialEq, Eq)]
pub struct Generated {
    /// The key.
    pub key: Secret,
    /// Where it is kept.
    pub path: PathBuf,
    /// Whether it is new, and so has to be shown.
    pub new: bool,
}

/// Reads the key at `path`, or makes it there, readable for its owner alone. `name` is for messages.
pub fn read_or_make(path: PathBuf, name: &str) -> anyhow::Result<Generated> {
    match stdx::file::read_text(&path, stdx::file::CREDENTIALS_BYTES_MAX) {
        Ok(text) => {
            let key = text.trim();
            // A crash between creating and writing leaves it empty; an empty key must never open anything.
            if key.len() < KEY_BYTES || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                bail!("{} holds no key; remove the file to have a new one made", path.display());
            }
            Ok(Generated { key: key.into(), path, new: false })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = random_hex()?;
            write_new(&path, &key)
                .with_context(|| format!("{name} can't be written to {}", path.display()))?;
            Ok(Generated { key: key.into(), path, new: true })
        }
        Err(error) => Err(error).with_context(|| format!("{name} can't be read from {}", path.display())),
    }
}

fn write_new(path: &Path, key: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

fn random_hex() -> anyhow::Result<String> {
    let mut bytes = [0u8; KEY_BYTES];
    let mut filled = 0;
    // One call fills 32 bytes; the loop is for a signal in between.
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("the system gives no random bytes"),
        }
    }
    Ok(bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|nibble| char::from_digit(nibble.into(), 16))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NAME: &str = "a.key";

    #[test]
    fn the_key_is_made_once_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let first = read_or_make(dir.path().join(NAME), "the key").unwrap();
        assert!(first.new && first.key.len() == 64 && first.key.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(fs::metadata(&first.path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = read_or_make(dir.path().join(NAME), "the key").unwrap();
        assert_eq!((second.new, &second.key), (false, &first.key));
        assert_ne!(
            read_or_make(tempfile::tempdir().unwrap().path().join(NAME), "the key").unwrap().key,
            first.key
        );
    }

    #[test]
    fn an_empty_key_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), "\n").unwrap();
        assert!(
            read_or_make(dir.path().join(NAME), "the key")
                .unwrap_err()
                .to_string()
                .contains("remove the file")
        );
    }
}
