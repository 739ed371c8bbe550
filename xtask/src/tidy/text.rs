//! White space that diffs would trip over.

use super::{Findings, Tree, report};

/// Files written by hand. Data is left alone: a corpus of broken requests is full of odd white space.
const WRITTEN: [&str; 8] = [".rs", ".md", ".toml", ".yaml", ".yml", ".sh", ".py", ".ci/run"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let written = tree.files().iter().filter(|file| WRITTEN.iter().any(|end| file.path.ends_with(end)));
    for file in written {
        for (line, text) in file.lines() {
            if text.ends_with([' ', '\t']) {
                report(findings, &file.path, line, "remove the white space at the end of the line");
            }
        }
        if file.text.contains('\r') {
            report(findings, &file.path, 0, "end lines with a line feed alone");
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            report(
                findings,
                &file.path,
                file.text.lines().count(),
                "end the file with exactly one line feed",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn stray_white_space_is_found() {
        for (text, expected) in [
            ("a\nb\n", vec![]),
            ("", vec![]),
            ("a \nb\n", vec!["a.md:1"]),
            ("a\nb\t\n", vec!["a.md:2"]),
            ("a\r\nb\n", vec!["a.md:0"]),
            ("a\nb", vec!["a.md:2"]),
            ("a\n\n", vec!["a.md:2"]),
        ] {
            assert_eq!(places(check, &[("a.md", text)]), expected, "{text:?}");
        }
        assert_eq!(places(check, &[("tests/corpus/a.http", "a \r\n\r\n")]).len(), 0);
    }
}
