//! The file in which the last state is kept, so that a start need not wait for Consul.

use super::catalog::{self, Catalog};
use crate::config::Dump;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest file that is read: 100,000 nodes of 100 bytes are 10 MB.
pub(super) const DUMP_BYTES_MAX: u64 = 64 << 20;

/// What the file has, unless it is too old.
pub(super) fn read(dump: &Dump) -> Option<Catalog> {
    let ignored =
        |why: String| tracing::error!(file = %dump.path.display(), "the dump file is not used: {why}");
    let text =
        stdx::file::read(&dump.path, DUMP_BYTES_MAX).map_err(|error| ignored(error.to_string())).ok()?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| ignored(error.to_string())).ok()?;
    let (Some(services), Some(written_s)) =
        (value.get("services"), value.get("last_update").and_then(Value::as_u64))
    else {
        ignored("it has no `services` or no `last_update`".to_owned());
        return None;
    };
    if dump.expire != 0 && written_s.saturating_add(dump.expire) < now_s() {
        ignored("it has expired".to_owned());
        return None;
    }
    Some(catalog::read(services))
}

/// Writes the file anew, whole or not at all.
pub(super) fn write(dump: &Dump, services: &Catalog) {
    let text = json!({ "services": catalog::shown(services), "last_update": now_s(), "expire": dump.expire });
    let new = dump.path.with_extension("new");
    let written =
        write_private(&new, text.to_string().as_bytes()).and_then(|()| fs::rename(&new, &dump.path));
    if let Err(error) = written {
        tracing::error!(file = %dump.path.display(), %error, "the dump file can't be written");
    }
}

/// Writes a file that other users of the machine can't read.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(path)?;
    file.write_all(bytes)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
