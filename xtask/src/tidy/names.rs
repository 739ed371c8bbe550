//! A file is named after its idea. A drawer for whatever is left over has none, and only ever grows.

use super::{Findings, Tree, report};

/// Names that say nothing.
const DRAWERS: [&str; 7] = ["util", "utils", "helper", "helpers", "common", "manager", "misc"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (file, _) in tree.rust() {
        let parts = file.path.trim_end_matches(".rs").split('/');
        for part in parts.filter(|part| DRAWERS.contains(part)) {
            report(findings, &file.path, 0, format!("name it after its idea: `{part}` is a drawer"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn drawers_are_found_as_files_and_folders() {
        for (path, found) in [
            ("crates/wire/src/utils.rs", 1),
            ("tests/common/mod.rs", 1),
            ("crates/wire/src/chunked.rs", 0),
            ("crates/wire/src/commons.rs", 0),
        ] {
            assert_eq!(places(check, &[(path, "")]).len(), found, "{path}");
        }
    }
}
