//! No import circles between the modules of a crate: what a file needs can be read before it.
//!
//! A file depends on the files whose items it names by `crate::`, `super::` or `self::`; an item that a module re-exports
//! belongs to the file it comes from. Circles from before the rule stand in `xtask/ratchet.txt` with the number of files in
//! them, as `circles:crates/name 12`; figures only go down. Tests are free.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_source::RustSource;
use super::{Findings, Tree, report};

const RATCHET: &str = "xtask/ratchet.txt";
/// What an entry of the ratchet for this rule begins with.
pub(super) const ENTRY: &str = "circles:";

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for (file, rust) in tree.rust() {
        let place = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
        if let Some((name, below)) = place {
            crates.entry(name).or_default().add(&file.path, below, rust);
        }
    }
    let mut known = known(tree, findings);
    for (name, modules) in &crates {
        let circles = modules.circles();
        let count: usize = circles.iter().map(Vec::len).sum();
        let (line, allowed) = known.remove(*name).unwrap_or_default();
        if count > allowed {
            for circle in &circles {
                let others = circle.join(", ");
                let message = format!("these {} files import each other in a circle: {others}", circle.len());
                report(findings, circle.first().map_or("", |first| first), 0, message);
            }
        } else if count < allowed {
            report(
                findings,
                RATCHET,
                line,
                format!("`{ENTRY}crates/{name}` has shrunk: lower its entry to {count}"),
            );
        }
    }
    for (name, (line, _)) in known {
        report(findings, RATCHET, line, format!("there is no crate `{name}`: remove its entry"));
    }
}

/// The ratchet's entries for this rule: by crate the line and the number of files.
fn known(tree: &Tree, findings: &mut Findings) -> BTreeMap<String, (usize, usize)> {
    let mut known = BTreeMap::new();
    for (line, text) in tree.file(RATCHET).into_iter().flat_map(|file| file.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        let Some(entry) = text.strip_prefix(ENTRY) else { continue };
        let parts = entry.strip_prefix("crates/").and_then(|entry| entry.split_once(' '));
        match parts.map(|(name, count)| (name, count.trim().parse())) {
            Some((name, Ok(count))) => {
                known.insert(name.to_owned(), (line, count));
            }
            _ => report(findings, RATCHET, line, format!("an entry is `{ENTRY}crates/name files`")),
        }
    }
    known
}

/// The modules of one crate by path: `exchange::relay`; the root is empty.
#[derive(Default)]
struct Modules<'t> {
    files: BTreeMap<String, Module<'t>>,
}

struct Module<'t> {
    path: &'t str,
    /// What it names of its own crate, from the root, module by module.
    names: Vec<Vec<String>>,
    /// What it re-exports: the name, and what it names.
    exports: BTreeMap<String, Vec<String>>,
}

impl<'t> Modules<'t> {
    fn add(&mut self, path: &'t str, below: &str, rust: &RustSource) {
        let module = below.strip_suffix(".rs").unwrap_or(below);
        let module = module.strip_suffix("/mod").unwrap_or(module);
        let module = if matches!(module, "lib" | "main") { "" } else { module };
        let own: Vec<String> = module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let code: String = rust.product_code().flat_map(|(_, line)| [line, "\n"]).collect();
        let (mut names, mut exports) = (Vec::new(), BTreeMap::new());
        let mut rest = code.as_str();
        let mut elsewhere = String::new();
        while let Some((before, visible, tree, after)) = next_use(rest) {
            elsewhere.push_str(before);
            let mut paths = Vec::new();
            expand(tree, &[], &mut paths);
            for (path, name) in paths {
                let Some(path) = absolute(&own, &path, &rest_modules(&code)) else { continue };
                if visible {
                    exports.insert(name, path.clone());
                } else {
                    names.push(path);
                }
            }
            rest = after;
        }
        elsewhere.push_str(rest);
        names.extend(inline(&elsewhere).into_iter().filter_map(|path| absolute(&own, &path, &[])));
        self.files.insert(own.join("::"), Module { path, names, exports });
    }

    /// The files that import each other, each circle in alphabetical order.
    fn circles(&self) -> Vec<Vec<&'t str>> {
        let edges: BTreeMap<&str, BTreeSet<&str>> = self
            .files
            .iter()
            .map(|(own, module)| {
                let targets = module.names.iter().filter_map(|path| self.target(path, 0));
                (own.as_str(), targets.filter(|target| target != own).collect())
            })
            .collect();
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            edges.keys().map(|from| (*from, reach(from, &edges))).collect();
        let mut circles: BTreeSet<Vec<&'t str>> = BTreeSet::new();
        for (from, to) in &reached {
            let circle = to.iter().filter(|other| reached[**other].contains(from) && to.contains(from));
            let mut paths: Vec<_> = circle.map(|module| self.files[*module].path).collect();
            paths.sort_unstable();
            if paths.len() > 1 {
                circles.insert(paths);
            }
        }
        circles.into_iter().collect()
    }

    /// The module that an item belongs to: the longest part of the path that is one, or the one it is re-exported from.
    fn target(&self, path: &[String], depth: usize) -> Option<&str> {
        // Re-exports of re-exports end soon, unless the code doesn't compile.
        if depth > 8 {
            return None;
        }
        let module = (0..=path.len()).rev().find(|end| self.files.contains_key(&path[..*end].join("::")))?;
        let (name, found) = self.files.get_key_value(&path[..module].join("::"))?;
        match path.get(module).and_then(|item| found.exports.get(item)) {
            Some(of) => self.target(of, depth + 1),
            // A name that the root neither declares nor re-exports is a macro or an item of its own.
            None => Some(name),
        }
    }
}

/// The modules that can be reached from `from`.
fn reach<'e>(from: &'e str, edges: &BTreeMap<&'e str, BTreeSet<&'e str>>) -> BTreeSet<&'e str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        for to in edges.get(next).into_iter().flatten() {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

/// The next `use` of `code`: what stands before it, whether it is `pub`, its tree, and what comes after.
fn next_use(code: &str) -> Option<(&str, bool, &str, &str)> {
    let mut from = 0;
    loop {
        let at = from + code[from..].find("use ")?;
        let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..at];
        let visibility = line.trim();
        if visibility.is_empty() || visibility.starts_with("pub") {
            let end = at + code[at..].find(';')?;
            return Some((&code[..at], !visibility.is_empty(), &code[at + 4..end], &code[end + 1..]));
        }
        from = at + 4;
    }
}

/// The paths of a use tree, each with the name that it gets.
fn expand(tree: &str, before: &[String], paths: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if let Some((start, inside)) = tree.split_once('{') {
        let mut path = before.to_vec();
        path.extend(start.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
        let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in inside.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&inside[begin..at], &path, paths);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        expand(&inside[begin..], &path, paths);
    } else if !tree.is_empty() {
        let (written, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = before.to_vec();
        path.extend(written.split("::").map(str::trim).filter(|part| *part != "self").map(str::to_owned));
        let last = path.last().cloned().unwrap_or_default();
        let name = if alias.is_empty() { last } else { alias.trim().to_owned() };
        paths.push((path, name));
    }
}

/// The paths that begin with `crate::` or `super::` outside of `use`.
fn inline(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let inside_a_path =
            code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$'));
        if !inside_a_path {
            let end = code[at..].find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')));
            let path = &code[at..end.map_or(code.len(), |end| at + end)];
            paths.push(path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
        }
    }
    paths
}

/// The modules that a file declares.
fn rest_modules(code: &str) -> Vec<String> {
    let declared = code.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod "));
    declared.map(|(_, name)| name.trim().to_owned()).collect()
}

/// A path from the crate's root; `None` where it leads into another crate.
fn absolute(own: &[String], path: &[String], children: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    if children.contains(first) {
        return Some([own, path].concat());
    }
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([own, rest].concat()),
        "super" => absolute(&own[..own.len().checked_sub(1)?], &[&["self".to_owned()], rest].concat(), &[])
            .and_then(|path| match path.iter().position(|part| part == "super") {
                Some(at) => absolute(&path[..at], &path[at..], &[]),
                None => Some(path),
            }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{findings, places};
    use super::*;

    const LIB: (&str, &str) =
        ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{B, C as D};\n");

    #[test]
    fn circles_are_found_through_re_exports_and_inline_paths() {
        for (a, b, circle) in [
            ("use crate::B;\n", "use crate::A;\n", true),
            ("use crate::{\n    std::X,\n    D,\n};\n", "fn f(_: super::a::A) {}\n", true),
            ("use super::b;\n", "pub fn f() { crate::a::g() }\n", true),
            ("use crate::B;\n", "use crate::y::A;\n", false),
            ("use crate::B;\n", "// use crate::A;\n", false),
            ("use crate::B;\n", "#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n", false),
            ("use crate::B;\n", "use self::inner::A;\n", false),
        ] {
            let files = [LIB, ("crates/x/src/a.rs", a), ("crates/x/src/b.rs", b)];
            let found = places(check, &files);
            assert_eq!(!found.is_empty(), circle, "{a} {b}: {found:?}");
        }
    }

    #[test]
    fn a_parent_and_its_child_are_a_circle_as_well() {
        let parent = ("crates/x/src/a/mod.rs", "mod c;\nuse c::C;\npub struct P;\n");
        let child = ("crates/x/src/a/c.rs", "use super::P;\n");
        let found = findings(check, &[parent, child]);
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("crates/x/src/a/c.rs, crates/x/src/a/mod.rs"), "{found:?}");
        let exporting = ("crates/x/src/a/mod.rs", "mod c;\npub use c::C;\npub struct P;\n");
        assert_eq!(places(check, &[exporting, child]).len(), 0, "a re-export needs nothing");
    }

    #[test]
    fn the_ratchet_holds_the_number_of_files_and_only_tightens() {
        let (a, b) = (("crates/x/src/a.rs", "use crate::B;"), ("crates/x/src/b.rs", "use crate::A;"));
        for (entry, place) in [
            ("circles:crates/x 2", None),
            ("circles:crates/x 1", Some("crates/x/src/a.rs:0")),
            ("circles:crates/x 3", Some("xtask/ratchet.txt:1")),
            ("circles:x", Some("xtask/ratchet.txt:1")),
        ] {
            let found = places(check, &[LIB, a, b, (RATCHET, entry)]);
            let expected = place.into_iter().any(|place| found.iter().any(|found| found == place));
            assert_eq!(expected, place.is_some(), "{entry}: {found:?}");
            assert_eq!(found.is_empty(), place.is_none(), "{entry}: {found:?}");
        }
        assert_eq!(places(check, &[(RATCHET, "circles:crates/none 2")]), ["xtask/ratchet.txt:1"]);
    }
}
