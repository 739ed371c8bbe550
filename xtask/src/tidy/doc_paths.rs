//! Every path that a document names exists.
//!
//! A path is a link's target, or code in backticks that starts with a folder of the repository or is a document at its
//! root. Code blocks are left alone: they show commands and pictures.

use super::{Findings, Tree, report};

/// Folders of the repository. A fixed list: with the folders that exist now, a removed folder would take the check of
/// its paths with it.
const FOLDERS: [&str; 13] = [
    ".cargo",
    ".ci",
    "benches",
    "conformance",
    "crates",
    "dashboard",
    "docs",
    "examples",
    "fuzz",
    "schemas",
    "scripts",
    "tests",
    "xtask",
];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.documents() {
        let mut in_block = false;
        for (line, text) in file.lines() {
            if text.trim_start().starts_with("```") {
                in_block = !in_block;
            }
            if in_block {
                continue;
            }
            let code = text.split('`').skip(1).step_by(2).filter(|code| is_path(code)).flat_map(expand);
            let links = targets(text).filter_map(|target| resolve(&file.path, target));
            for path in code.chain(links).filter(|path| !tree.has(path)) {
                report(
                    findings,
                    &file.path,
                    line,
                    format!("`{path}` does not exist: name what took its place"),
                );
            }
        }
    }
}

/// Whether `code`, found in backticks, is meant as a path of the repository.
fn is_path(code: &str) -> bool {
    let plain = code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/{},:".contains(&byte));
    let in_folder = code.split_once('/').is_some_and(|(first, _)| FOLDERS.contains(&first));
    let at_root = !code.contains('/') && code.ends_with(".md");
    plain && (in_folder || at_root)
}

/// The paths that `code` stands for: without `::item`, and with `{a,b}` written out.
fn expand(code: &str) -> Vec<String> {
    let code = code.split("::").next().unwrap_or(code);
    let Some((before, rest)) = code.split_once('{') else { return vec![code.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![code.to_owned()] };
    choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
}

/// The targets of the links on a line.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The repository's path for a link's target in the document at `from`; `None` for a web address or a place in the
/// same document.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn paths_that_do_not_exist_are_found() {
        for (text, found) in [
            ("see `docs/a.md` and `docs/`", 0),
            ("see `docs/b.md`", 1),
            ("see `docs/{a,b,c}.md`", 2),
            ("see `docs/a.md::title`", 0),
            ("see `GONE.md`", 1),
            ("see `conf/config.yaml`, `docs/<name>.md` and `a/b`", 0),
            ("[a](docs/a.md#title) [b](https://example.org/x.md) [c](#here)", 0),
            ("[a](docs/b.md)", 1),
            ("```\n`docs/b.md`\n```\n", 0),
        ] {
            assert_eq!(places(check, &[("README.md", text), ("docs/a.md", "")]).len(), found, "{text}");
        }
    }

    #[test]
    fn links_start_from_their_document() {
        let files =
            [("docs/a.md", "[x](../README.md) [y](decisions/b.md) [z](README.md)"), ("README.md", "")];
        assert_eq!(places(check, &files), ["docs/a.md:1", "docs/a.md:1"]);
    }
}
