//! Fields of forms: `application/x-www-form-urlencoded` as in queries and bodies, and `multipart/form-data`.

use memchr::memmem::Finder;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// `text` with `+` and percent-escapes decoded; a bad escape stays as it is.
pub(crate) fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let digit = |at: usize| text.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high << 4 | low).unwrap_or_default());
                at += 3;
            }
            (b'+', ..) => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

/// The names and values of an encoded form, as sent; a name without `=` has an empty value.
fn pairs(form: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        match pair.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&pair[..equals], &pair[equals + 1..]),
            None => (pair, &[][..]),
        }
    })
}

/// The value of the first field called `name`, decoded.
pub(crate) fn field<'f>(form: &'f [u8], name: &[u8]) -> Option<Cow<'f, [u8]>> {
    pairs(form).find(|(written, _)| *decode(written) == *name).map(|(_, value)| decode(value))
}

/// All fields of an encoded form; one that stands several times is a list.
#[must_use]
pub fn fields(form: &[u8]) -> Value {
    let mut all = Map::new();
    for (name, value) in pairs(form) {
        add(&mut all, text(&decode(name)), text(&decode(value)));
    }
    Value::Object(all)
}

/// All arguments of a query, as APISIX tells them to others: as [`fields`], and one without `=` is `true`.
#[must_use]
pub fn query_args(query: &[u8]) -> Value {
    let mut all = Map::new();
    for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&pair[..equals], text(&decode(&pair[equals + 1..])).into()),
            None => (pair, Value::Bool(true)),
        };
        add(&mut all, text(&decode(name)), value);
    }
    Value::Object(all)
}

/// All parts of a multipart form by their names; lines may end in CRLF or LF. `None` where `content_type` names no
/// boundary.
pub(crate) fn parts(content_type: &str, body: &[u8]) -> Option<Value> {
    let boundary = parameter(content_type, "boundary").filter(|boundary| !boundary.is_empty())?;
    let delimiter = format!("--{boundary}").into_bytes();
    // Comparing at each place would take the product of both lengths: 64 MiB of hyphens and a boundary of 8,000.
    let finder = Finder::new(&delimiter);
    let mut all = Map::new();
    let mut rest = body;
    let mut part: Option<&[u8]> = None;
    while let Some(at) = finder.find(rest) {
        if let Some((name, value)) = part.and_then(|_| named(&rest[..at])) {
            add(&mut all, name, text(value));
        }
        rest = &rest[at + delimiter.len()..];
        if rest.starts_with(b"--") {
            break;
        }
        part = Some(rest);
    }
    Some(Value::Object(all))
}

/// The name and content of a part, which ends in the line end before the next delimiter.
fn named(part: &[u8]) -> Option<(String, &[u8])> {
    let part = without_line_end(part);
    let mut lines = part;
    let mut name = None;
    loop {
        let end = lines.iter().position(|byte| *byte == b'\n')?;
        let line = without_line_end(&lines[..=end]);
        lines = &lines[end + 1..];
        let header = text(line);
        if let Some((field, value)) = header.split_once(':')
            && field.eq_ignore_ascii_case("content-disposition")
        {
            name = parameter(value, "name");
        }
        // The first line is what stands behind the delimiter: nothing. An empty one after it ends the head.
        if line.is_empty() && name.is_some() {
            return Some((name?, lines));
        }
    }
}

fn without_line_end(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}

/// The parameter `name` of a header's value: `form-data; name="a"`.
fn parameter(value: &str, name: &str) -> Option<String> {
    value.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.trim().split_once('=')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim_matches('"').to_owned())
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn add(all: &mut Map<String, Value>, name: String, value: impl Into<Value>) {
    let value = value.into();
    match all.get_mut(&name) {
        None => {
            all.insert(name, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_of_a_query_have_types() {
        let args = query_args(b"a=1&b&a=x%20y&b&&c=&%64=+");
        assert_eq!(args, json!({"a": ["1", "x y"], "b": [true, true], "c": "", "d": " "}));
    }

    #[test]
    fn encoded_forms_are_decoded() {
        assert_eq!(
            fields(b"a=1&b=x%20y+z&a=2&c&%61=3&d=%zz&&"),
            json!({"a": ["1", "2", "3"], "b": "x y z", "c": "", "d": "%zz"})
        );
        assert_eq!(field(b"x=1&na%6de=v+w", b"name").as_deref(), Some(&b"v w"[..]));
        assert_eq!(field(b"x=1", b"name"), None);
    }

    #[test]
    fn parts_are_found_by_their_names() {
        let body = b"preamble\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nopen\r\nai\r\n--b\r\n\
            content-type: text/plain\r\ncontent-disposition: form-data; filename=\"f\"; name=file\r\n\r\n\r\n--b--\r\nend";
        let expected = json!({"model": "open\r\nai", "file": ""});
        assert_eq!(parts("multipart/form-data; boundary=b", body), Some(expected));
        let lf = b"--b\nContent-Disposition: form-data; name=\"model\"\n\nopenai\n--b--";
        assert_eq!(parts("multipart/form-data; boundary=\"b\"", lf), Some(json!({"model": "openai"})));
        assert_eq!(parts("multipart/form-data", lf), None);
        assert_eq!(parts("multipart/form-data; boundary=b", b"--b"), Some(json!({})));
    }

    #[test]
    fn a_long_boundary_that_nearly_occurs_everywhere_is_searched_in_one_pass() {
        // Comparing at each place reads 128 GB here, which takes more than six seconds; one pass takes milliseconds.
        let content_type = format!("multipart/form-data; boundary={}x", "-".repeat(8000));
        let start = std::time::Instant::now();
        assert_eq!(parts(&content_type, &vec![b'-'; 16 << 20]), Some(json!({})));
        assert!(start.elapsed() < std::time::Duration::from_secs(3), "{:?}", start.elapsed());
    }
}
