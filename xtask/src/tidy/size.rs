//! Files of at most 500 lines and functions of at most 70: what fits a head, and a screen.
//!
//! What was larger when the rule came, or has a good reason, stands in `xtask/ratchet.txt` with its size. The ratchet
//! only tightens: an entry that is larger than what it names must be lowered, one that is no longer needed removed.
//! Test functions may be long (a table of cases is one); files of tests may not.

use std::collections::BTreeMap;

use super::{Findings, Tree, report};

/// Lines of a file, all counted.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function, from `fn` to its closing brace. clippy.toml says the same.
const FUNCTION_LINES_MAX: usize = 70;

const RATCHET: &str = "xtask/ratchet.txt";

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let mut known = known(tree, findings);
    for (file, rust) in tree.rust() {
        let count = file.text.lines().count();
        judge(
            findings,
            &mut known,
            &Measured { path: &file.path, line: 0, item: None, count, max: FILE_LINES_MAX },
        );
        for function in rust.product_functions() {
            let item = Some(function.name.as_str());
            let (line, count) = (function.line, function.lines);
            judge(
                findings,
                &mut known,
                &Measured { path: &file.path, line, item, count, max: FUNCTION_LINES_MAX },
            );
        }
    }
    for (name, entry) in known.into_iter().filter(|(_, entry)| !entry.needed) {
        report(findings, RATCHET, entry.line, format!("`{name}` needs no entry any more: remove it"));
    }
}

/// One entry of the ratchet.
struct Entry {
    line: usize,
    count: usize,
    /// Whether something was found that is over its limit.
    needed: bool,
}

/// A file, or a function of it.
struct Measured<'a> {
    path: &'a str,
    line: usize,
    item: Option<&'a str>,
    count: usize,
    max: usize,
}

fn judge(findings: &mut Findings, known: &mut BTreeMap<String, Entry>, measured: &Measured<'_>) {
    let Measured { path, line, item, count, max } = *measured;
    if count <= max {
        return;
    }
    let name = item.map_or_else(|| path.to_owned(), |item| format!("{path}::{item}"));
    match known.get_mut(&name) {
        Some(entry) if entry.count < count => {
            entry.needed = true;
            report(
                findings,
                path,
                line,
                format!("`{name}` has grown from {} to {count} lines: split it", entry.count),
            );
        }
        Some(entry) => {
            entry.needed = true;
            if entry.count > count {
                report(
                    findings,
                    RATCHET,
                    entry.line,
                    format!("`{name}` has shrunk: lower its entry to {count}"),
                );
            }
        }
        None => report(
            findings,
            path,
            line,
            format!("{count} lines, at most {max}: split it where the idea changes"),
        ),
    }
}

/// The ratchet's entries: `path lines` or `path::function lines`; `#` starts a comment.
fn known(tree: &Tree, findings: &mut Findings) -> BTreeMap<String, Entry> {
    let mut known = BTreeMap::new();
    let lines = tree.file(RATCHET).into_iter().flat_map(|file| file.lines());
    for (line, text) in lines {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() || text.starts_with(super::circles::ENTRY) {
            continue;
        }
        match text.split_once(' ').map(|(name, count)| (name, count.trim().parse())) {
            Some((name, Ok(count))) => {
                known.insert(name.to_owned(), Entry { line, count, needed: false });
            }
            _ => report(findings, RATCHET, line, "an entry is `path lines` or `path::function lines`"),
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    fn long_function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn files_and_functions_have_a_limit() {
        for (text, expected) in [
            ("//\n".repeat(500), vec![]),
            ("//\n".repeat(501), vec!["a.rs:0"]),
            (long_function(70), vec![]),
            (long_function(71), vec!["a.rs:1"]),
            (format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long_function(71)), vec![]),
        ] {
            assert_eq!(places(check, &[("a.rs", &text)]), expected, "{}", text.lines().count());
        }
    }

    #[test]
    fn the_ratchet_only_tightens() {
        let text = long_function(80);
        for (ratchet, expected) in [
            ("a.rs::f 80", vec![]),
            ("# why\na.rs::f 80 # because\n", vec![]),
            ("a.rs::f 79", vec!["a.rs:1"]),
            ("a.rs::f 81", vec!["xtask/ratchet.txt:1"]),
            ("a.rs::f 80\na.rs 600", vec!["xtask/ratchet.txt:2"]),
            ("a.rs::f 80\nnonsense", vec!["xtask/ratchet.txt:2"]),
        ] {
            assert_eq!(places(check, &[("a.rs", &text), (RATCHET, ratchet)]), expected, "{ratchet}");
        }
    }
}
