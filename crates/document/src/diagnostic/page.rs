//! docs/reference/errors.md: the table of codes for readers.

use std::fmt::Write as _;

use super::codes::{GROUPS, Text};

/// Returns the reference page of all codes, in Markdown.
#[must_use]
pub fn reference_page() -> String {
    let mut page = String::from(
        "# Diagnostics\n\n\
         Every mistake that Tidegate finds in a configuration has a code that stays the same from version to version. The\n\
         code is at the end of the message:\n\n\
         ```text\n\
         conf/config.yaml:3:3: warning: apisix.nodelisten: unknown key, ignored [TG0201]\n  \
           hint: did you mean node_listen?\n\
         ```\n\n\
         With `--json`, `tidegate test`, `lint`, `config validate`, `config diff`, `config sync` and `import nginx` print each\n\
         diagnostic as an object: `severity`, `code`, `rule` (the name of the code), `file`, `line`, `column`, `key` (the\n\
         resource), `path` (JSON pointer within the resource, or path of the key in `config.yaml`), `message`, `hint`.\n\n\
         This page is generated from `crates/document/src/diagnostic/codes.rs`.\n",
    );
    for group in GROUPS {
        let _ = write!(page, "\n## {}\n", group.title);
        for code in group.codes {
            let Text { meaning, action, .. } = code.text();
            let _ = write!(page, "\n### {code}: {}\n\n{meaning}\n\nWhat to do: {action}\n", code.name());
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_documents_are_those_that_the_table_makes() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/errors.md"));
        let page = reference_page();
        if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == page,
            "docs/reference/errors.md is not current: TIDEGATE_WRITE_DOCS=1 cargo test -p document the_documents_are"
        );
    }
}
