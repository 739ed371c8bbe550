//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! One small file per rule, a pure function from [`Tree`] to findings, tested on strings. A rule says where and what
//! to do about it; STYLE.md and ARCHITECTURE.md say why.

mod arrows;
mod boundaries;
mod circles;
mod crate_map;
mod decisions;
mod doc_paths;
mod manifest;
mod module_docs;
mod names;
mod plugin_names;
mod purity;
mod rust_source;
mod size;
mod text;
mod tree;
mod unsafe_code;
mod unused;
mod words;

use std::path::Path;

use anyhow::bail;

use tree::Tree;

/// A rule broken at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// From the repository's root.
    path: String,
    /// Counted from 1; 0 when the file as a whole is meant.
    line: usize,
    /// What is wrong and what to do.
    message: String,
}

/// Where a rule puts what it finds.
type Findings = Vec<Finding>;

fn report(findings: &mut Findings, path: &str, line: usize, message: impl Into<String>) {
    findings.push(Finding { path: path.to_owned(), line, message: message.into() });
}

/// A rule: reads the tree, reports what breaks it.
type Check = fn(&Tree, &mut Findings);

/// Every rule by name, in alphabetical order.
const RULES: &[(&str, Check)] = &[
    ("arrows", arrows::check),
    ("boundaries", boundaries::check),
    ("circles", circles::check),
    ("crate-map", crate_map::check),
    ("decisions", decisions::check),
    ("doc-paths", doc_paths::check),
    ("manifest", manifest::check),
    ("module-docs", module_docs::check),
    ("names", names::check),
    ("plugin-names", plugin_names::check),
    ("purity", purity::check),
    ("size", size::check),
    ("text", text::check),
    ("unsafe-code", unsafe_code::check),
    ("unused", unused::check),
    ("words", words::check),
];

/// Checks the repository at `root` and prints every finding.
///
/// # Errors
/// When a file can't be read or a rule is broken.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::load(root)?;
    let mut count = 0;
    for (name, check) in RULES {
        let mut findings = Findings::new();
        check(&tree, &mut findings);
        findings.sort();
        count += findings.len();
        for Finding { path, line, message } in findings {
            println!("{path}:{line}: {message} [{name}]");
        }
    }
    if count > 0 {
        bail!("rules of the house are broken, in {count} place(s)");
    }
    println!("{} files keep {} rules", tree.files().len(), RULES.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `check` finds in a tree of `files`, as `path:line` and message.
    pub(super) fn findings(check: Check, files: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut findings = Findings::new();
        check(&Tree::of(files), &mut findings);
        findings.sort();
        findings.into_iter().map(|f| (format!("{}:{}", f.path, f.line), f.message)).collect()
    }

    /// Only the places.
    pub(super) fn places(check: Check, files: &[(&str, &str)]) -> Vec<String> {
        findings(check, files).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn rules_are_listed_in_alphabetical_order() {
        assert!(RULES.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn an_empty_repository_breaks_no_rule() {
        for (name, check) in RULES {
            assert_eq!(places(*check, &[]), Vec::<String>::new(), "{name}");
        }
    }
}
