//! `unsafe` stands in two places only, where a reader can check all of it.

use super::rust_source::has_word;
use super::{Findings, Tree, report};

/// Where `unsafe` is allowed.
const ALLOWED: [&str; 2] = ["crates/stdx/src/", "crates/engine/src/sys/"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (file, rust) in tree.rust() {
        if ALLOWED.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        // Tests as well: a test that needs `unsafe` tests something that belongs to one of the two places.
        for (line, code) in rust.all_code() {
            let lifted = ["allow(unsafe_code", "expect(unsafe_code"].iter().any(|lift| code.contains(lift));
            if has_word(code, "unsafe") || lifted {
                report(
                    findings,
                    &file.path,
                    line,
                    format!("unsafe code belongs in {}", ALLOWED.join(" or ")),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn unsafe_is_found_outside_its_two_places() {
        let text = "//! unsafe in words\n#![allow(unsafe_code, reason = \"\")]\nfn f() { unsafe { g() } }\n#![deny(unsafe_code)]\n";
        assert_eq!(
            places(check, &[("crates/wire/src/a.rs", text)]),
            ["crates/wire/src/a.rs:2", "crates/wire/src/a.rs:3"]
        );
        assert_eq!(places(check, &[("crates/engine/src/a.rs", text)]).len(), 2);
        assert_eq!(places(check, &[("crates/engine/src/sys/a.rs", text)]).len(), 0);
        assert_eq!(places(check, &[("crates/stdx/src/a.rs", text)]).len(), 0);
    }
}
