//! `${{NAME}}` and `${{NAME:=default}}`, as APISIX has them.
//!
//! The double braces are APISIX's choice, because nginx and the log formats use `$name` and `${name}` themselves.
//! Spaces inside the braces and around the default do not count.

use std::borrow::Cow;

use crate::diagnostic::{Diagnostic, codes};
use crate::{Node, Position, Value};

/// Where variables come from: the process environment, or a table in tests.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces references in the text of a document.
///
/// # Errors
/// Every variable that is not set and has no default, with its position.
pub fn in_text<'t>(text: &'t str, lookup: Lookup<'_>) -> Result<Cow<'t, str>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let filled = expand(text, lookup, &mut |at, name| errors.push(not_set(position(text, at), name)));
    match filled {
        _ if !errors.is_empty() => Err(errors),
        Some(filled) => Ok(Cow::Owned(filled)),
        None => Ok(Cow::Borrowed(text)),
    }
}

/// Replaces references in every key and string below `node`, whose path is `path`. Strings with references become
/// [`Value::Filled`]. `missing` gets the position, the path and the name of each variable that is not set and has no
/// default.
pub fn in_tree(
    node: &mut Node,
    path: &str,
    lookup: Lookup<'_>,
    missing: &mut dyn FnMut(Position, &str, &str),
) {
    match &mut node.value {
        Value::Text(text) => {
            let at = node.at;
            if let Some(filled) = expand(text, lookup, &mut |_, name| missing(at, path, name)) {
                node.value = Value::Filled(filled);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                in_tree(item, &format!("{path}[{index}]"), lookup, missing);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                let inner = join(path, &entry.key);
                let at = entry.at;
                if let Some(filled) = expand(&entry.key, lookup, &mut |_, name| missing(at, &inner, name)) {
                    entry.key = filled;
                }
                in_tree(&mut entry.value, &inner, lookup, missing);
            }
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Filled(_) => {}
    }
}

/// Returns `path.key`, or `key` at the top.
#[must_use]
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns the error of a variable that is not set and has no default.
#[must_use]
pub fn not_set(at: Position, name: &str) -> Diagnostic {
    Diagnostic::error(codes::VARIABLE_NOT_SET, format!("the environment variable {name} is not set"))
        .at(at)
        .hint(format!("set it, or give a default: ${{{{{name}:=...}}}}"))
}

/// Returns the text with its references replaced, or `None` where it has none. `missing` gets the offset and the name
/// of each variable that is not set and has no default.
fn expand(text: &str, lookup: Lookup<'_>, missing: &mut dyn FnMut(usize, &str)) -> Option<String> {
    let mut filled = String::new();
    let (mut done, mut from) = (0, 0);
    let mut used = false;
    while let Some(start) = text.get(from..)?.find("${{").map(|offset| from + offset) {
        let Some((reference, length)) = reference(&text[start..]) else {
            from = start + "${{".len();
            continue;
        };
        filled.push_str(&text[done..start]);
        (done, from, used) = (start + length, start + length, true);
        let (name, default) = match reference.split_once(":=") {
            Some((name, default)) => (name.trim_end(), Some(default.trim())),
            None => (reference, None),
        };
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => filled.push_str(&value),
            None => missing(start, name),
        }
    }
    filled.push_str(&text[done..]);
    used.then_some(filled)
}

/// Returns what is between the braces of the reference at the head of `text`, and the length of the whole reference.
/// The name must begin with a letter, a digit or `_`; otherwise this is no reference and stays as it is.
fn reference(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("${{")?;
    let end = inner.find("}}")?;
    let reference = inner[..end].trim();
    let begins_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    reference.starts_with(begins_a_name).then_some((reference, "${{".len() + end + "}}".len()))
}

/// Returns the position of the byte at `offset`.
fn position(text: &str, offset: usize) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    Position { line: number(before.matches('\n').count() + 1), column: number(column) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_yaml;

    fn variables(name: &str) -> Option<String> {
        match name {
            "PORT" => Some("9085".into()),
            "HOST" => Some("example.com".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced() {
        let cases = [
            ("${{PORT}}", Some("9085")),
            ("${{ PORT }}", Some("9085")),
            ("${{PORT:=1}}", Some("9085")),
            ("${{MISSING:=1}}", Some("1")),
            ("${{MISSING := a b }}", Some("a b")),
            ("${{MISSING:=}}", Some("")),
            ("${{EMPTY:=1}}", Some("")),
            ("http://${{HOST}}:${{PORT}}/", Some("http://example.com:9085/")),
            ("${PORT} $PORT", None),
            ("${{", None),
            ("${{}}", None),
            ("${{-a}} ${{PORT}}", Some("${{-a}} 9085")),
            ("${{PORT", None),
            ("é${{HOST}}é", Some("éexample.comé")),
        ];
        for (text, expected) in cases {
            let mut none = |_: usize, name: &str| panic!("{name}");
            assert_eq!(expand(text, &variables, &mut none).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_missing_variable_is_named_with_its_position() {
        let mut root = parse_yaml("apisix:\n  dns_resolver:\n    - ${{DNS_ONE}}\n    - ${{HOST}}\n").unwrap();
        let mut found = Vec::new();
        in_tree(&mut root, "", &variables, &mut |at, path, name| {
            found.push((at, path.to_owned(), name.to_owned()));
        });
        let at = Position { line: 3, column: 7 };
        assert_eq!(found, [(at, "apisix.dns_resolver[0]".to_owned(), "DNS_ONE".to_owned())]);
        let errors = in_text("a\n  ${{DNS_ONE}}", &variables).unwrap_err();
        assert_eq!(errors[0].at, Some(Position { line: 2, column: 3 }));
        assert!(errors[0].message.contains("DNS_ONE is not set"));
    }

    #[test]
    fn keys_are_substituted_too() {
        let mut root = parse_yaml("${{HOST}}: 1\n").unwrap();
        in_tree(&mut root, "", &variables, &mut |_, _, name| panic!("{name}"));
        assert!(root.get("example.com").is_some());
    }
}
