//! JSON data as XML.

use serde_json::Value;

/// A document whose root is called `name`.
pub(super) fn document(name: &str, value: &Value) -> String {
    let mut out = String::new();
    element(name, value, 0, &mut out);
    out
}

/// One element; of an array one for each item.
fn element(name: &str, value: &Value, level: usize, out: &mut String) {
    let indent = "  ".repeat(level);
    match value {
        Value::Array(items) => items.iter().for_each(|item| element(name, item, level, out)),
        Value::Object(members) => {
            out.push_str(&format!("{indent}<{name}>\n"));
            members.iter().for_each(|(name, member)| element(name, member, level + 1, out));
            out.push_str(&format!("{indent}</{name}>\n"));
        }
        Value::String(text) => out.push_str(&format!("{indent}<{name}>{}</{name}>\n", escaped(text))),
        other => out.push_str(&format!("{indent}<{name}>{other}</{name}>\n")),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arrays_repeat_their_name() {
        let data = json!({"a": [1, {"b": "<&>"}], "c": true});
        let expected = "<d>\n  <a>1</a>\n  <a>\n    <b>&lt;&amp;&gt;</b>\n  </a>\n  <c>true</c>\n</d>\n";
        assert_eq!(document("d", &data), expected);
    }
}
