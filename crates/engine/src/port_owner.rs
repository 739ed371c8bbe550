//! Which process listens on a port, as far as `/proc` tells.

use std::fs;

/// Names the process that listens on TCP `port`: `nginx (pid 17)`. `None` where that can't be seen.
#[must_use]
pub fn port_owner(port: u16) -> Option<String> {
    let inode =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| listening_inode(table, port))?;
    let socket = format!("socket:[{inode}]");
    let is_process =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let process = fs::read_dir("/proc").ok()?.flatten().filter(is_process).find(|entry| {
        let Ok(descriptors) = fs::read_dir(entry.path().join("fd")) else { return false };
        descriptors
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == socket.as_str()))
    })?;
    let name = fs::read_to_string(process.path().join("comm")).ok()?;
    Some(format!("{} (pid {})", name.trim(), process.file_name().to_string_lossy()))
}

/// The inode of the socket that listens on `port`: column 9 of the rows in state 0A (LISTEN).
fn listening_inode(table: &str, port: u16) -> Option<String> {
    let suffix = format!(":{port:04X}");
    fs::read_to_string(table).ok()?.lines().skip(1).find_map(|row| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let listening =
            columns.get(3) == Some(&"0A") && columns.get(1).is_some_and(|local| local.ends_with(&suffix));
        listening.then(|| columns.get(9).map(|inode| (*inode).to_owned()))?
    })
}
