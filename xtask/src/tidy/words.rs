//! Words that have no place in a finished tree: notes to self, skipped tests, one machine's paths.

use super::rust_source::has_word;
use super::{Findings, Tree, report};

/// Matched as whole words. Written in halves, here and below, because this file is checked too.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Matched anywhere, with what to do.
const PHRASES: &[(&str, &str)] = &[
    (concat!("to", "do!("), "write the code"),
    (concat!("unimple", "mented!("), "write the code"),
    (concat!("#[ig", "nore"), "a test runs or is deleted; a slow one gets faster"),
    (concat!("/ro", "ot/"), "a path of one machine: use one that every reader has"),
    (concat!("/ho", "me/"), "a path of one machine: use one that every reader has"),
    (concat!("/wo", "rk/"), "a path of one machine: use one that every reader has"),
];

/// Texts that are not ours to word.
const EXCEPTIONS: [&str; 2] = ["Cargo.lock", "LICENSE"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.files().iter().filter(|file| !EXCEPTIONS.contains(&file.path.as_str())) {
        for (line, text) in file.lines() {
            for note in NOTES.iter().filter(|note| has_word(text, note)) {
                report(
                    findings,
                    &file.path,
                    line,
                    format!("`{note}`: do it now, or open an issue and say why not"),
                );
            }
            for (phrase, remedy) in PHRASES.iter().filter(|(phrase, _)| text.contains(phrase)) {
                report(findings, &file.path, line, format!("`{phrase}`: {remedy}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn notes_and_phrases_are_found() {
        for (text, found) in [
            (format!("// {}: later", NOTES[0]), 1),
            (format!("{}S and their kin", NOTES[0]), 0),
            (format!("prefix.{}{}", NOTES[2], NOTES[2]), 0),
            (format!("fn f() {{ {}) }}", PHRASES[0].0), 1),
            (format!("{} = \"slow\"]", PHRASES[2].0), 1),
            (format!("cd {}me", PHRASES[4].0), 1),
            ("nothing at all".to_owned(), 0),
        ] {
            assert_eq!(places(check, &[("a.rs", &text)]).len(), found, "{text}");
        }
    }
}
