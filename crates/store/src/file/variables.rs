//! `${{NAME}}` and `${{NAME:=default}}` in documents, as APISIX has them: in YAML before it is read, so that quotes
//! decide what a value is; in JSON within strings.

use serde_json::Value;

use super::document::Mistake;
use super::place::Place;

/// Puts variables into the text of a YAML document.
pub(super) fn in_text(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, Mistake> {
    let mut filled = String::with_capacity(text.len());
    let mut at = 0;
    while let Some((start, end, reference)) = next_reference(text, at) {
        filled.push_str(&text[at..start]);
        match value(reference, lookup) {
            Some(value) => filled.push_str(&value),
            None => {
                let message = missing(reference);
                return Err(Mistake { at: Some(Place::at(text, start)), message });
            }
        }
        at = end;
    }
    filled.push_str(&text[at..]);
    Ok(filled)
}

/// Puts variables into the strings of a JSON document, keys among them.
pub(super) fn in_value(value: &mut Value, lookup: &dyn Fn(&str) -> Option<String>) -> Result<(), Mistake> {
    match value {
        Value::String(text) if text.contains("${{") => {
            let filled = in_text(text, lookup).map_err(|mistake| Mistake { at: None, ..mistake })?;
            // A string that a variable makes a number or a boolean is one, as in APISIX.
            *value = match serde_json::from_str(&filled) {
                Ok(plain @ (Value::Number(_) | Value::Bool(_))) if filled != *text => plain,
                _ => filled.into(),
            };
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| in_value(item, lookup)),
        Value::Object(fields) => {
            for (key, mut field) in std::mem::take(fields) {
                in_value(&mut field, lookup)?;
                let key = in_text(&key, lookup).map_err(|mistake| Mistake { at: None, ..mistake })?;
                fields.insert(key, field);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Start, end and inside of the next reference from `at` on. What begins with no letter, digit or `_` is none.
fn next_reference(text: &str, at: usize) -> Option<(usize, usize, &str)> {
    let mut from = at;
    loop {
        let start = from + text.get(from..)?.find("${{")?;
        let inner = text.get(start + 3..)?;
        let length = inner.find("}}")?;
        let reference = inner.get(..length)?.trim();
        if reference.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return Some((start, start + 3 + length + 2, reference));
        }
        from = start + 3;
    }
}

fn value(reference: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    match reference.split_once(":=") {
        Some((name, default)) => Some(lookup(name.trim_end()).unwrap_or_else(|| default.trim().to_owned())),
        None => lookup(reference),
    }
}

fn missing(reference: &str) -> String {
    format!(
        "the environment variable {reference} is not set; set it, or give a default: ${{{{{reference}:=...}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lookup(name: &str) -> Option<String> {
        (name == "PORT").then(|| "1980".to_owned())
    }

    #[test]
    fn references_are_replaced_and_nothing_else() {
        for (text, expected) in [
            ("a ${{PORT}} b ${{ PORT }}", Some("a 1980 b 1980")),
            ("${{NONE:=x}}${{PORT:=x}}", Some("x1980")),
            ("${PORT} $uri ${{-}} ${{", Some("${PORT} $uri ${{-}} ${{")),
            ("${{NONE}}", None),
        ] {
            assert_eq!(in_text(text, &lookup).ok().as_deref(), expected, "{text}");
        }
        let mut value = json!({ "a": ["${{PORT}}", "p${{PORT}}", 5], "h:${{PORT}}": 1 });
        in_value(&mut value, &lookup).unwrap();
        assert_eq!(value, json!({ "a": [1980, "p1980", 5], "h:1980": 1 }));
    }
}
