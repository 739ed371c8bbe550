//! What a crate keeps out of itself: libraries that would let it do another crate's work.

use super::manifest::Manifest;
use super::{Findings, Tree, report};

/// `(crate, library, why not)`.
const BANNED: &[(&str, &[&str], &str)] = &[
    (
        "engine",
        &["serde", "serde_json", "jsonschema"],
        "the engine never parses JSON: `snapshot` compiles it",
    ),
    ("stdx", &["tokio"], "these crates are pure: bytes and time are passed in"),
    ("wire", &["tokio", "serde_json"], "these crates are pure: bytes and time are passed in"),
    ("model", &["tokio"], "these crates are pure: bytes and time are passed in"),
    ("router", &["tokio"], "these crates are pure: bytes and time are passed in"),
    ("balance", &["tokio"], "these crates are pure: bytes and time are passed in"),
];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for manifest in Manifest::of_crates(tree) {
        for (_, banned, why) in BANNED.iter().filter(|(name, ..)| *name == manifest.folder) {
            for (line, dependency) in manifest.dependencies().filter(|(_, name)| banned.contains(name)) {
                report(findings, manifest.path, line, format!("`{dependency}` stays out: {why}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn banned_libraries_are_found() {
        let text = "[dependencies]\ntokio.workspace = true\nserde_json.workspace = true\n";
        assert_eq!(places(check, &[("crates/engine/Cargo.toml", text)]), ["crates/engine/Cargo.toml:3"]);
        assert_eq!(places(check, &[("crates/balance/Cargo.toml", text)]), ["crates/balance/Cargo.toml:2"]);
        assert_eq!(places(check, &[("crates/admin/Cargo.toml", text)]).len(), 0);
    }

    #[test]
    fn tests_may_use_them() {
        let text = "[dev-dependencies]\nserde_json.workspace = true\n";
        assert_eq!(places(check, &[("crates/engine/Cargo.toml", text)]).len(), 0);
    }
}
