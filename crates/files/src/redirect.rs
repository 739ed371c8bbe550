//! Paths and names as they stand in `Location` and in HTML.

use std::fmt::Write as _;

/// A path with everything percent-encoded but what a path may hold as it is (RFC 3986 section 3.3, without the
/// sub-delimiters that HTML or shells could take for something else).
pub(crate) fn href(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len() + 8);
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"-._~/:@!$()*+,;=".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Text for HTML, what is no UTF-8 replaced.
pub(crate) fn escaped(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Where a folder is seen that was asked for without its slash: the path with it, and the query.
pub(crate) fn with_slash(path: &[u8], query: &[u8]) -> String {
    let mut location = href(path);
    location.push('/');
    // As it was sent, so it is a valid query; what could end a header line can't be in it.
    location.extend(query.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)));
    location
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_hold_nothing_that_ends_a_line_or_names_another_host() {
        assert_eq!(with_slash(b"/a b/\xff\"", b""), "/a%20b/%FF%22/");
        assert_eq!(with_slash(b"/docs", b"?a=1&b=%20"), "/docs/?a=1&b=%20");
        assert_eq!(with_slash(b"/d\r\nSet-Cookie: x", b"?\r\n"), "/d%0D%0ASet-Cookie:%20x/?");
    }
}
