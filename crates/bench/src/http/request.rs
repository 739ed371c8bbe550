//! The one request of a run, prepared once.

use bytes::Bytes;
use wire::Method;

/// At least this many bytes of requests are laid out one after the other, so that a pipelining client sends several in
/// one call.
const BATCH_MAX: usize = 64 * 1024;

/// The one request of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method as sent.
    pub method: String,
    /// The header fields, `Host` left out: name and value.
    pub fields: Vec<(String, String)>,
    /// What the `Host` field or `:authority` says.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// The body; may be empty.
    pub body: Bytes,
    wire: Vec<u8>,
    length: usize,
}

/// Why a request can't be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(String);

impl Request {
    /// Prepares a request. `fields` are lines as given with `-H`: `Name: value`; a `Host` among them takes the place of
    /// the URL's. `depth` is how many may be sent in one call.
    ///
    /// # Errors
    /// When the method or a field has bytes that don't belong there, or a field that frames the message is given: the
    /// body decides that.
    pub fn new(
        method: &str,
        authority: &str,
        path: &str,
        lines: &[String],
        body: Bytes,
        depth: usize,
    ) -> Result<Self, RequestError> {
        if method.is_empty() || !method.bytes().all(is_token) {
            return Err(RequestError(format!("{method:?} is no request method")));
        }
        let (mut authority, mut fields) = (authority.to_owned(), Vec::new());
        for line in lines {
            let (name, value) = parse_field(line)?;
            if name.eq_ignore_ascii_case("host") {
                value.clone_into(&mut authority);
            } else {
                fields.push((name.to_owned(), value.to_owned()));
            }
        }
        let mut request = Self {
            method: method.into(),
            fields,
            authority,
            path: path.into(),
            body,
            wire: Vec::new(),
            length: 0,
        };
        let one = request.encode();
        let copies = depth.min(BATCH_MAX / one.len().max(1)).max(1);
        (request.length, request.wire) = (one.len(), one.repeat(copies));
        Ok(request)
    }

    /// Its method, as far as the response's framing depends on it.
    #[must_use]
    pub fn kind(&self) -> Method {
        Method::from_token(self.method.as_bytes())
    }

    /// How many requests [`Self::bytes`] can give in one piece.
    #[must_use]
    #[inline]
    pub fn batch(&self) -> usize {
        self.wire.len() / self.length
    }

    /// So many requests as HTTP/1.1 has them, at most [`Self::batch`].
    #[must_use]
    #[inline]
    pub fn bytes(&self, count: usize) -> &[u8] {
        &self.wire[..self.length * count.min(self.batch())]
    }

    fn encode(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.path, self.authority);
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || matches!(self.kind(), Method::Post | Method::Put | Method::Patch) {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

fn parse_field(line: &str) -> Result<(&str, &str), RequestError> {
    let bad = |why: &str| RequestError(format!("the header {line:?} {why}"));
    let (name, value) = line.split_once(':').ok_or_else(|| bad("has no colon"))?;
    let value = value.trim_matches([' ', '\t']);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(bad("has a name that is none"));
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(bad("has control characters"));
    }
    if ["content-length", "transfer-encoding"].iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
        return Err(bad("frames the message; the body alone decides that"));
    }
    Ok((name, value))
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(
        method: &str,
        lines: &[&str],
        body: &'static str,
        depth: usize,
    ) -> Result<Request, RequestError> {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        Request::new(method, "a:80", "/x", &lines, Bytes::from_static(body.as_bytes()), depth)
    }

    #[test]
    fn requests_are_laid_out_as_http1_has_them() {
        for (method, lines, body, text) in [
            ("GET", &[][..], "", "GET /x HTTP/1.1\r\nHost: a:80\r\n\r\n"),
            ("GET", &["X-A:  1 "], "", "GET /x HTTP/1.1\r\nHost: a:80\r\nX-A: 1\r\n\r\n"),
            ("PUT", &["host: b"], "hi", "PUT /x HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhi"),
            ("POST", &[], "", "POST /x HTTP/1.1\r\nHost: a:80\r\nContent-Length: 0\r\n\r\n"),
        ] {
            let request = request(method, lines, body, 3).expect(method);
            assert_eq!(request.bytes(1), text.as_bytes());
            assert_eq!(request.bytes(9), text.repeat(3).as_bytes());
            assert_eq!(request.batch(), 3);
        }
    }

    #[test]
    fn what_would_break_the_message_is_refused() {
        for (method, lines, why) in [
            ("", &[][..], "method"),
            ("G T", &[], "method"),
            ("GET", &["no colon"], "colon"),
            ("GET", &["a b: c"], "name"),
            ("GET", &["a: b\r\nc: d"], "control"),
            ("GET", &["content-length: 3"], "frames"),
        ] {
            let error = request(method, lines, "", 1).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
