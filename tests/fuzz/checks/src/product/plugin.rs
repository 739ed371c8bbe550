//! What plugins and conditions read of requests: forms, GraphQL documents, cookies.

use ::plugin::fuzzing::{form_field, graphql as first_operation, multipart as parts};
use ::plugin::{Request, form_fields};
use ::wire::{RequestHead, RequestView, normalise_path};
use serde_json::Value;

/// An encoded form: its fields come back when they are encoded, and a single one is found as among all.
pub fn form(bytes: &[u8]) {
    let fields = form_fields(bytes);
    let all = fields.as_object().expect("a form is an object");
    let mut encoded = Vec::new();
    for (name, value) in all {
        for value in texts(value) {
            escape(name, &mut encoded);
            encoded.push(b'=');
            escape(value, &mut encoded);
            encoded.push(b'&');
        }
        // What is not UTF-8 is shown with replacement characters, which the bytes don't have.
        if !name.contains('\u{fffd}') {
            let first = form_field(bytes, name.as_bytes()).expect("it is there");
            assert_eq!(Some(&*String::from_utf8_lossy(&first)), texts(value).next());
        }
    }
    assert_eq!(form_fields(&encoded), fields);
}

/// A multipart form, its content type in the first line; and the same bytes as the contents of one, which come back.
pub fn multipart(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (content_type, body) = bytes.split_at(end);
    if let Some(found) = parts(&String::from_utf8_lossy(content_type), body) {
        let body = String::from_utf8_lossy(body);
        for value in found.as_object().expect("a form is an object").values().flat_map(texts) {
            assert!(body.contains(value) || value.contains('\u{fffd}'), "{value:?} is no part of the body");
        }
    }
    const DELIMITER: &[u8] = b"--a-boundary";
    if bytes.windows(DELIMITER.len()).any(|window| window == DELIMITER) {
        return;
    }
    let contents: Vec<&[u8]> = bytes.split(|byte| *byte == 0).take(8).collect();
    for line_end in ["\r\n", "\n"] {
        let mut whole = Vec::new();
        for (number, content) in contents.iter().enumerate() {
            let head = ["Content-Disposition: form-data; name=\"f", &number.to_string(), "\""].concat();
            for piece in [DELIMITER, line_end.as_bytes(), head.as_bytes(), line_end.repeat(2).as_bytes()] {
                whole.extend_from_slice(piece);
            }
            whole.extend_from_slice(content);
            whole.extend_from_slice(line_end.as_bytes());
        }
        whole.extend_from_slice(DELIMITER);
        whole.extend_from_slice(b"--\r\n");
        let read = parts("multipart/form-data; boundary=a-boundary", &whole).expect("a boundary");
        for (number, content) in contents.iter().enumerate() {
            let content = content.strip_suffix(b"\r").filter(|_| line_end == "\n").unwrap_or(content);
            assert_eq!(read[format!("f{number}")], String::from_utf8_lossy(content).as_ref());
        }
    }
}

/// A GraphQL document: names are words of it, and what says nothing changes nothing.
pub fn graphql(bytes: &[u8]) {
    let Ok(document) = std::str::from_utf8(bytes) else { return };
    let found = first_operation(document);
    let unmarked = document.trim_start_matches('\u{feff}');
    for same in [format!(" ,\n{unmarked}"), format!("{document}\n# }} {{"), format!("#\"\n{unmarked}")] {
        assert_eq!(first_operation(&same), found, "{same:?}");
    }
    let Some((kind, name, fields)) = found else { return };
    assert!(matches!(kind, "query" | "mutation" | "subscription" | ""));
    assert!(name.is_empty() || (is_name(&name) && document.contains(&name)));
    for field in fields.as_array().expect("a list") {
        let field = field.as_str().expect("names");
        assert!(is_name(field) && document.contains(field), "{field:?}");
    }
    assert_eq!(first_operation(&format!("{document}\n}}")), None, "a bracket too many");
}

/// Cookies: a name in the first line, the values of `Cookie` fields in the others. The first cookie of that name wins.
pub fn cookies(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let name = lines.next().unwrap_or_default();
    let lines: Vec<&[u8]> = lines.take(8).collect();
    let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for line in &lines {
        text.extend_from_slice(&[b"cOOkie: ", *line, b"\r\n"].concat());
    }
    text.extend_from_slice(b"\r\n");
    let mut head = RequestHead::default();
    if head.parse(&text) != Ok(true) || name.is_empty() {
        return;
    }
    let view = RequestView { head: &head, bytes: &text };
    let path = normalise_path(b"/").expect("a path");
    let request = Request::new(view, path, view.host());
    let pairs = lines.iter().flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    let mut values = pairs.filter(|pair| pair.starts_with(name) && pair.get(name.len()) == Some(&b'='));
    assert_eq!(request.cookie(name), values.next().map(|pair| &pair[name.len() + 1..]));
}

/// The texts of a field: its own, or those of a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().map(|value| value.as_str().expect("fields are texts"))
}

/// Appends `text` with every byte percent-encoded.
fn escape(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        out.extend_from_slice(format!("%{byte:02x}").as_bytes());
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.as_bytes()[0].is_ascii_digit()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
