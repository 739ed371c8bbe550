//! Every dependency of a crate is used by its code: what isn't costs build time and has to be trusted all the same.

use super::manifest::Manifest;
use super::rust_source::has_word;
use super::{Findings, Tree, report};

/// Packages whose library has another name.
const LIBRARIES: &[(&str, &str)] = &[("rustls-webpki", "webpki")];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for manifest in Manifest::of_crates(tree) {
        let folder = format!("crates/{}/", manifest.folder);
        let uses = |word: &str, tests: bool| {
            tree.rust().filter(|(file, _)| file.path.starts_with(&folder)).any(|(_, rust)| {
                if tests {
                    rust.all_code().any(|(_, code)| has_word(code, word))
                } else {
                    rust.product_code().any(|(_, code)| has_word(code, word))
                }
            })
        };
        let product = manifest.dependencies().map(|(line, name)| (line, name, false));
        for (line, name, tests) in product.chain(manifest.dev_dependencies().map(|(l, n)| (l, n, true))) {
            let library = LIBRARIES.iter().find(|(package, _)| *package == name).map(|(_, library)| *library);
            if !uses(&library.unwrap_or(name).replace('-', "_"), tests) {
                let message = match tests {
                    false => format!(
                        "`{name}` is not used by the crate's code: remove it, or move it to dev-dependencies"
                    ),
                    true => format!("`{name}` is used by no test: remove it"),
                };
                report(findings, manifest.path, line, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn what_nobody_uses_is_found() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nserde-json.workspace = true\ntokio.workspace = true\n\
                        [dev-dependencies]\nproptest.workspace = true\n";
        let path = "crates/a/Cargo.toml";
        let source = "//! tokio\nuse serde_json::Value;\nconst NAME: &str = \"proptest\";\n";
        let found = places(check, &[(path, manifest), ("crates/a/src/lib.rs", source)]);
        assert_eq!(found, ["crates/a/Cargo.toml:5", "crates/a/Cargo.toml:7"]);
        let used = "use serde_json::Value;\n#[cfg(test)]\nmod tests {\n    use tokio::time;\n    use proptest::prelude;\n}\n";
        let found = places(check, &[(path, manifest), ("crates/a/src/lib.rs", used)]);
        assert_eq!(found, ["crates/a/Cargo.toml:5"], "a dependency that tests alone use");
        let elsewhere =
            [(path, manifest), ("crates/b/src/lib.rs", "use serde_json; use tokio; use proptest;\n")];
        assert_eq!(places(check, &elsewhere).len(), 3);
    }
}
