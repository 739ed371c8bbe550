//! Configuration documents: YAML and JSON as a tree in which every key and value has its position, the `${{NAME}}`
//! references in them, and the [`diagnostic`]s that say what is wrong with them.
//!
//! `config.yaml`, the standalone files and the files of `tidegate config` are read by this crate alone, so that a file
//! means the same to the gateway and to the commands that check it.

pub mod diagnostic;
mod json;
pub mod limits;
mod node;
pub mod variables;
mod yaml;

pub use diagnostic::{Diagnostic, Found, Report, Severity, codes};
pub use json::parse as parse_json;
pub use node::{Entry, Node, Position, Value};
pub use yaml::parse as parse_yaml;

use variables::Lookup;

/// The language of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML. A file of the standalone mode ends in `#END`, so that a partly written file is not taken for a whole one.
    Yaml,
    /// JSON.
    Json,
}

impl Format {
    /// The format of a file of this name: JSON for the extension `json`, YAML for any other.
    #[must_use]
    pub fn of_path(path: &std::path::Path) -> Self {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            Self::Json
        } else {
            Self::Yaml
        }
    }
}

/// Returns whether a YAML text has the end mark of APISIX's standalone form.
#[must_use]
pub fn has_end_mark(text: &str) -> bool {
    text.trim_end().ends_with("#END")
}

/// Reads a resource document with its variables replaced, as APISIX does: in YAML before the text is parsed, so that
/// quotes decide whether a value is a string; in JSON, which has types, within strings.
///
/// # Errors
/// A syntax error, or every variable that is not set.
pub fn read(text: &str, format: Format, lookup: Lookup<'_>) -> Result<Node, Vec<Diagnostic>> {
    match format {
        Format::Yaml => parse_yaml(&variables::in_text(text, lookup)?).map_err(|error| vec![*error]),
        Format::Json => {
            let mut root = parse_json(text).map_err(|error| vec![*error])?;
            let mut errors = Vec::new();
            variables::in_tree(&mut root, "", lookup, &mut |at, _, name| {
                errors.push(variables::not_set(at, name));
            });
            if errors.is_empty() { Ok(root) } else { Err(errors) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_have_their_variables_replaced() {
        let lookup = |name: &str| (name == "PORT").then(|| "1980".to_owned());
        let cases = [
            ("a: ${{PORT}}", Format::Yaml, r#"{"a":1980}"#),
            ("a: \"${{PORT}}\"", Format::Yaml, r#"{"a":"1980"}"#),
            (
                "{\"a\": \"${{PORT}}\", \"${{PORT}}\": \"p${{PORT}}\"}",
                Format::Json,
                r#"{"a":1980,"1980":"p1980"}"#,
            ),
        ];
        for (text, format, expected) in cases {
            assert_eq!(read(text, format, &lookup).unwrap().to_json().to_string(), expected, "{text}");
        }
        let errors = read("a: ${{X}}\nb: ${{Y}}\n", Format::Yaml, &lookup).unwrap_err();
        let lines: Vec<_> = errors.iter().map(|error| error.at.map(|at| (at.line, at.column))).collect();
        assert_eq!(lines, [Some((1, 4)), Some((2, 4))]);
        let errors = read("{\n \"a\": \"${{X}}\"}", Format::Json, &lookup).unwrap_err();
        assert_eq!(errors[0].at, Some(Position { line: 2, column: 7 }));
    }
}
