//! Decision records: numbered without gaps, one form, so that a reader finds the reason where the last one was.

use super::{Findings, Tree, report};

const FOLDER: &str = "docs/decisions/";

/// The sections of a record, in this order.
const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Consequences", "## Rejected alternatives"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let records = tree.documents().filter(|file| file.path.starts_with(FOLDER));
    for (number, file) in (1..).zip(records) {
        let prefix = format!("{FOLDER}{number:04}-");
        if !file.path.starts_with(&prefix) {
            report(
                findings,
                &file.path,
                0,
                format!("the next record is `{prefix}title.md`: numbers have no gaps"),
            );
        }
        let title = format!("# {number:04}. ");
        if !file.text.starts_with(&title) {
            report(findings, &file.path, 1, format!("start with `{title}` and the decision in one line"));
        }
        let headings: Vec<&str> = file.text.lines().filter(|line| line.starts_with("## ")).collect();
        if headings != HEADINGS {
            report(findings, &file.path, 0, format!("the headings of a record are {}", HEADINGS.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn a_record_has_number_title_and_headings() {
        let good =
            "# 0001. Use rope\n\n## Context\n\n## Decision\n\n## Consequences\n\n## Rejected alternatives\n";
        for (path, text, found) in [
            ("docs/decisions/0001-rope.md", good.to_owned(), 0),
            ("docs/decisions/0002-rope.md", good.to_owned(), 1),
            ("docs/decisions/0001-rope.md", good.replace("0001. ", ""), 1),
            ("docs/decisions/0001-rope.md", good.replace("## Consequences\n", ""), 1),
            ("docs/guide.md", "# Guide\n".to_owned(), 0),
        ] {
            assert_eq!(places(check, &[(path, &text)]).len(), found, "{path} {text}");
        }
    }
}
