//! Arrows between crates point left only (ARCHITECTURE.md, "Crates").
//!
//! Dev-dependencies are free: what a test needs makes no cycle in the product.

use super::manifest::Manifest;
use super::{Findings, Tree, report};

/// The layers from left to right, planned crates with them. A crate depends only on crates of layers left of its own.
const LAYERS: &[&[&str]] = &[
    &["stdx"],
    &["wire"],
    &["model"],
    &["router", "balance", "observe", "tls", "protos", "document"],
    &["plugin", "store", "cache", "delivery", "files", "secrets", "discovery"],
    &["plugins", "snapshot", "lua", "config"],
    &["engine", "admin", "bench", "import"],
    &["bench-report"],
    &["gateway"],
    // In `tests/fuzz/checks`: it may use all of them, and none may use it.
    &["fuzz-checks"],
];

/// Crates that may be used by these crates alone, with the reason.
const USED_ONLY_BY: &[(&str, &[&str], &str)] = &[(
    "plugins",
    &["gateway"],
    "everyone else knows `plugin::Registry`, so that a plugin can be added or removed without touching them",
)];

/// Crates that use these crates alone, with the reason.
const USES_ONLY: &[(&str, &[&str], &str)] = &[
    (
        "bench",
        &["stdx", "wire", "tls", "observe"],
        "the load generator must not share the gateway's mistakes",
    ),
    ("bench-report", &["bench"], "reports are made from result files alone"),
];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for manifest in Manifest::of_crates(tree) {
        let Some(own) = layer(manifest.folder) else {
            let message = "this crate has no layer: add it to `LAYERS` in xtask/src/tidy/arrows.rs";
            report(findings, manifest.path, 0, message);
            continue;
        };
        for (line, dependency) in manifest.dependencies() {
            let Some(theirs) = layer(dependency) else { continue };
            if let Some(message) = verdict(manifest.folder, own, dependency, theirs) {
                report(findings, manifest.path, line, message);
            }
        }
    }
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|crates| crates.contains(&name))
}

/// What is wrong with an arrow, if anything.
fn verdict(from: &str, own: usize, to: &str, theirs: usize) -> Option<String> {
    if theirs >= own {
        return Some(format!(
            "`{from}` must not depend on `{to}`: it stands in the same layer or right of it; \
             move what is shared into a crate left of both"
        ));
    }
    if let Some((_, users, why)) =
        USED_ONLY_BY.iter().find(|(name, users, _)| *name == to && !users.contains(&from))
    {
        return Some(format!("only {users:?} may depend on `{to}`: {why}"));
    }
    let (_, uses, why) = USES_ONLY.iter().find(|(name, uses, _)| *name == from && !uses.contains(&to))?;
    Some(format!("`{from}` may depend on {uses:?} only: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    #[test]
    fn arrows_point_left_only() {
        let engine = "[package]\nname = \"engine\"\n[dependencies]\nwire.workspace = true\n";
        for (path, dependencies, broken) in [
            ("crates/engine/Cargo.toml", "wire.workspace = true", false),
            ("crates/engine/Cargo.toml", "admin.workspace = true", true),
            ("crates/wire/Cargo.toml", "engine = { path = \"../engine\" }", true),
            ("crates/engine/Cargo.toml", "plugins.workspace = true", true),
            ("crates/gateway/Cargo.toml", "plugins.workspace = true", false),
            ("crates/gateway/Cargo.toml", "fuzz-checks.workspace = true", true),
            ("crates/bench/Cargo.toml", "wire.workspace = true", false),
            ("crates/bench/Cargo.toml", "model.workspace = true", true),
            ("crates/bench/Cargo.toml", "bench-report.workspace = true", true),
            ("crates/bench-report/Cargo.toml", "bench.workspace = true", false),
            ("crates/bench-report/Cargo.toml", "wire.workspace = true", true),
            ("crates/admin/Cargo.toml", "snapshot.workspace = true", false),
            ("crates/admin/Cargo.toml", "tokio.workspace = true", false),
            ("xtask/Cargo.toml", "gateway.workspace = true", false),
        ] {
            let text = format!(
                "[package]\n[dependencies]\n{dependencies}\n[dev-dependencies]\nplugins.workspace = true\n"
            );
            let found = findings(check, &[(path, &text), ("crates/engine2/x", engine)]);
            assert_eq!(!found.is_empty(), broken, "{path} {dependencies}: {found:?}");
            assert!(found.iter().all(|(place, _)| place.ends_with(":3")), "{found:?}");
        }
    }

    #[test]
    fn a_crate_needs_a_layer() {
        let found = findings(check, &[("crates/new/Cargo.toml", "[package]\n")]);
        assert_eq!(found.len(), 1);
    }
}
