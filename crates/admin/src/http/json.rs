//! Reading bodies as JSON, with what APISIX's reader takes beyond the standard: control characters inside strings, such
//! as the line ends of a definition or a script that was pasted into a body.

use serde_json::Value;
use std::borrow::Cow;

/// Reads a body.
///
/// # Errors
/// Where it is no JSON, seen in the body as it was sent.
pub(crate) fn parse(body: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(body).or_else(|error| match escaped(body) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(escaped) => serde_json::from_slice(&escaped).map_err(|_| error),
    })
}

/// The body with the control characters of its strings escaped as RFC 8259 section 7 wants them; borrowed where there
/// are none.
fn escaped(body: &[u8]) -> Cow<'_, [u8]> {
    let (mut in_string, mut after_backslash) = (false, false);
    let mut out: Option<Vec<u8>> = None;
    for (at, &byte) in body.iter().enumerate() {
        // After a backslash it would become what the backslash escapes: that stays the mistake it is.
        if in_string && !after_backslash && byte < 0x20 {
            let out = out.get_or_insert_with(|| body[..at].to_vec());
            out.extend(format!("\\u{byte:04x}").bytes());
            continue;
        }
        if let Some(out) = &mut out {
            out.push(byte);
        }
        match byte {
            _ if after_backslash => after_backslash = false,
            b'\\' if in_string => after_backslash = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    out.map_or(Cow::Borrowed(body), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn control_characters_in_strings_are_taken() {
        for (body, expected) in [
            ("{\"a\": \"x\ny\tz\"}", Some(json!({"a": "x\ny\tz"}))),
            ("{\n\t\"a\\\"\": \"\\\\\"\n}", Some(json!({"a\"": "\\"}))),
            ("[\"a\\\"\nb\"]", Some(json!(["a\"\nb"]))),
            ("[\"a\0b\"]", Some(json!(["a\0b"]))),
            ("[1\0]", None),
            ("[\"a\n", None),
            ("[\"\\\n\"]", None),
        ] {
            assert_eq!(parse(body.as_bytes()).ok(), expected, "{body:?}");
        }
    }

    #[test]
    fn a_mistake_is_placed_in_the_body_as_sent() {
        let error = parse(b"{\"a\": \"\n\n\", b}").unwrap_err().to_string();
        assert!(error.contains("line 1 column 8") || error.contains("line 2 column 0"), "{error}");
    }
}
