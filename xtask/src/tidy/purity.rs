//! Protocol, routing, balancing and plugin code has no clock and no socket in it: time and bytes are passed in.
//!
//! What has no clock is tested without waiting, and what has no socket runs under any driver.

use super::rust_source::has_word;
use super::{Findings, Tree, report};

/// `(folders, words, what to do)`.
const BANNED: &[(&[&str], &[&str], &str)] = &[
    (
        &["crates/wire/", "crates/model/", "crates/router/", "crates/balance/", "crates/plugins/"],
        &["Instant::now", "SystemTime::now", "UNIX_EPOCH.elapsed"],
        "take the time as an argument: this crate has no clock",
    ),
    (
        &[
            "crates/stdx/",
            "crates/wire/",
            "crates/model/",
            "crates/router/",
            "crates/balance/",
            "crates/plugin/",
            "crates/plugins/",
            "crates/snapshot/",
            "crates/store/src/cached/",
            "crates/store/src/embedded/",
            "crates/store/src/file/",
        ],
        &["TcpStream", "TcpListener", "UdpSocket", "UnixStream", "UnixListener"],
        "only the engine, the control plane's servers and its clients of etcd and of secret managers own sockets",
    ),
];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (file, rust) in tree.rust() {
        for (folders, words, remedy) in BANNED {
            if !folders.iter().any(|folder| file.path.starts_with(folder)) {
                continue;
            }
            for (line, code) in rust.product_code() {
                for word in words.iter().filter(|word| has_word(code, word)) {
                    report(findings, &file.path, line, format!("`{word}`: {remedy}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn clocks_and_sockets_are_found_where_they_do_not_belong() {
        let clock = "// Instant::now\nfn f() { Instant::now(); }\n";
        let socket = "use std::net::TcpStream;\n";
        assert_eq!(places(check, &[("crates/wire/src/a.rs", clock)]), ["crates/wire/src/a.rs:2"]);
        assert_eq!(places(check, &[("crates/engine/src/a.rs", clock)]).len(), 0);
        assert_eq!(places(check, &[("crates/plugins/src/a.rs", socket)]), ["crates/plugins/src/a.rs:1"]);
        assert_eq!(places(check, &[("crates/engine/src/a.rs", socket)]).len(), 0);
    }
}
