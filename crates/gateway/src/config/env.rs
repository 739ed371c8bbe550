//! `${{NAME}}` and `${{NAME:=default}}` in keys and strings, as APISIX has them.
//!
//! The double braces are APISIX's choice, because nginx and the log formats use `$name` and `${name}` themselves.
//! Spaces inside the braces and around the default do not count.

use super::problem::{Position, Problem, Problems};
use super::yaml::{Node, Value};

/// Where variables come from: the process environment, or a table in tests.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Substitutes in every key and string below `node`. A variable that is missing and has no default is an error at the
/// place of the string that names it.
pub fn substitute(node: &mut Node, path: &str, lookup: Lookup<'_>, problems: &Problems) {
    match &mut node.value {
        Value::Text(text) => {
            if let Some(filled) = fill(text, node.at, path, lookup, problems) {
                node.value = Value::Filled(filled);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                substitute(item, &format!("{path}[{index}]"), lookup, problems);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                let inner = join(path, &entry.key);
                if let Some(filled) = fill(&entry.key, entry.at, &inner, lookup, problems) {
                    entry.key = filled;
                }
                substitute(&mut entry.value, &inner, lookup, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Filled(_) => {}
    }
}

/// `path.key`, or `key` at the top.
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The text with its references replaced; `None` where it has none.
fn fill(text: &str, at: Position, path: &str, lookup: Lookup<'_>, problems: &Problems) -> Option<String> {
    let mut filled = String::new();
    let mut used = false;
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        let Some((reference, length)) = reference(&rest[start..]) else {
            let literal = start + "${{".len();
            filled.push_str(&rest[..literal]);
            rest = &rest[literal..];
            continue;
        };
        filled.push_str(&rest[..start]);
        rest = &rest[start + length..];
        used = true;
        let (name, default) = match reference.split_once(":=") {
            Some((name, default)) => (name.trim_end(), Some(default.trim())),
            None => (reference, None),
        };
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => filled.push_str(&value),
            None => problems.add(
                Problem::error(Some(at), path, format!("the environment variable {name} is not set"))
                    .hint(format!("set it, or give a default: ${{{{{name}:=...}}}}")),
            ),
        }
    }
    filled.push_str(rest);
    used.then_some(filled)
}

/// What stands between the braces of the reference at the head of `text`, and the length of all of it. The name must
/// begin with a letter, a digit or `_`; otherwise this is no reference and stays as it is.
fn reference(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("${{")?;
    let end = inner.find("}}")?;
    let reference = inner[..end].trim();
    let begins_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    reference.starts_with(begins_a_name).then_some((reference, "${{".len() + end + "}}".len()))
}

#[cfg(test)]
mod tests {
    use super::super::yaml::parse;
    use super::*;

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
            let problems = Problems::default();
            let at = Position { line: 1, column: 1 };
            assert_eq!(fill(text, at, "", &variables, &problems).as_deref(), expected, "{text}");
            assert!(problems.into_sorted().is_empty(), "{text}");
        }
    }

    #[test]
    fn a_missing_variable_is_named_with_its_place() {
        let mut root = parse("apisix:\n  dns_resolver:\n    - ${{DNS_ONE}}\n    - ${{HOST}}\n").unwrap();
        let problems = Problems::default();
        substitute(&mut root, "", &variables, &problems);
        let found = problems.into_sorted();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].at, Some(Position { line: 3, column: 7 }));
        assert_eq!(found[0].path, "apisix.dns_resolver[0]");
        assert_eq!(found[0].message, "the environment variable DNS_ONE is not set");
    }

    #[test]
    fn keys_are_substituted_too() {
        let mut root = parse("${{HOST}}: 1\n").unwrap();
        substitute(&mut root, "", &variables, &Problems::default());
        assert!(root.get("example.com").is_some());
    }
}
