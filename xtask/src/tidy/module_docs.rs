//! Every source file opens with what it is for. A module's own tests need not: they are for that module.

use super::tree::is_module_of_tests;
use super::{Findings, Tree, report};

/// What a skeleton says of itself; a file that is in use says more.
const PLACEHOLDER: &str = "//! (in progress)";

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (file, _) in tree.rust().filter(|(file, _)| !is_module_of_tests(&file.path)) {
        let first = file.text.lines().next().unwrap_or_default();
        if !first.starts_with("//! ") || first == PLACEHOLDER {
            report(
                findings,
                &file.path,
                1,
                "start the file with `//!` and one sentence that says what it is for",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn the_tests_of_a_module_need_no_sentence() {
        assert_eq!(places(check, &[("crates/wire/src/http1/tests.rs", "use super::*;\n")]).len(), 0);
        assert_eq!(places(check, &[("tests/proxy.rs", "use e2e::*;\n")]).len(), 1);
    }

    #[test]
    fn a_file_without_a_first_sentence_is_found() {
        for (text, found) in [
            ("//! Codecs.\nfn f() {}\n", 0),
            ("fn f() {}\n", 1),
            ("// Codecs.\n", 1),
            ("//!\n", 1),
            ("//! (in progress)\n", 1),
            ("", 1),
        ] {
            assert_eq!(places(check, &[("crates/wire/src/lib.rs", text)]).len(), found, "{text:?}");
        }
    }
}
