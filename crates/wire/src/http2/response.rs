//! Response heads that came as HTTP/2.

use super::is_grpc;
use super::page::{Limits, Page, TooLarge, is_malformed};
use crate::http1::FIELDS_MAX;
use crate::{BodyLength, Method, ResponseError, ResponseHead, Span};
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use std::iter::once;

/// Reads a response's head into `head`, whose ranges are those of `into`, and returns how much of `into` is filled. It
/// answers a request with `method`; `ends` says whether no body follows.
///
/// # Errors
/// What is refused of HTTP/1.1 for the same reasons.
pub fn read_response(
    parts: &Parts,
    ends: bool,
    method: Method,
    head: &mut ResponseHead,
    into: &mut [u8],
) -> Result<usize, ResponseError> {
    let large = |_: TooLarge| ResponseError("upstream sent too big header");
    let status = parts.status.as_u16();
    if status > 599 {
        return Err(ResponseError("upstream sent an invalid status line"));
    }
    let bodiless = method == Method::Head || status < 200 || matches!(status, 204 | 304);
    let counted = parts.headers.contains_key(CONTENT_LENGTH);
    // The end of gRPC's messages is told by their trailers, whatever a length says.
    let unknown = !ends && !bodiless && (!counted || is_grpc(&parts.headers));
    // One of the fields is added here.
    let mut page = Page::new(into, Limits { line: usize::MAX, fields: FIELDS_MAX + 1 });
    let reason = page.add(b"HTTP/2.0 ").map_err(large)?.end() + 4;
    page.add(parts.status.as_str().as_bytes()).map_err(large)?;
    let fields_start = page.add(b" \r\n").map_err(large)?.end();
    *head = ResponseHead {
        fields: std::mem::take(&mut head.fields),
        status,
        reason: Span::new(reason, reason),
        fields_start,
        keep_alive: true,
        ..ResponseHead::default()
    };
    head.fields.clear();
    for (name, value) in &parts.headers {
        if unknown && name == CONTENT_LENGTH {
            continue;
        }
        if head.fields.len() == FIELDS_MAX {
            return Err(ResponseError("upstream sent too many header fields"));
        }
        let value = once(value.as_bytes().trim_ascii());
        let field = page.field(name.as_str().as_bytes(), value, &mut head.fields).map_err(large)?;
        if is_malformed(field.known) {
            return Err(ResponseError("upstream sent a field of an HTTP/1.1 connection in HTTP/2"));
        }
        head.note_length(&field, page.bytes())?;
    }
    if ends && !bodiless && !counted {
        // The head alone would leave an HTTP/1.1 client to wait for the end of its connection.
        page.field(b"content-length", once(&b"0"[..]), &mut head.fields).map_err(large)?;
        head.content_length = Some(0);
    }
    head.length = page.add(b"\r\n").map_err(large)?.end();
    head.body = match head.content_length {
        _ if bodiless || ends => BodyLength::None,
        Some(length) => BodyLength::exact(length),
        None => BodyLength::Chunked,
    };
    Ok(page.filled())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;

    #[test]
    fn heads_are_laid_out_as_ranges() {
        let exact = BodyLength::Exact(3);
        for (status, fields, ends, method, expected, body) in [
            (200, &[("content-length", "3")][..], false, Method::Get, "content-length: 3\r\n", exact),
            (200, &[], false, Method::Get, "", BodyLength::Chunked),
            // A value says nothing about the framing.
            (
                200,
                &[("content-length", "3"), ("x", "transfer-encoding: chunked")],
                false,
                Method::Get,
                "content-length: 3\r\nx: transfer-encoding: chunked\r\n",
                exact,
            ),
            (200, &[], true, Method::Get, "content-length: 0\r\n", BodyLength::None),
            (204, &[], true, Method::Get, "", BodyLength::None),
            (103, &[("link", "</a>")], true, Method::Get, "link: </a>\r\n", BodyLength::None),
            (200, &[("content-length", "3")], true, Method::Head, "content-length: 3\r\n", BodyLength::None),
            (
                200,
                &[("content-type", "application/grpc"), ("content-length", "3")],
                false,
                Method::Post,
                "content-type: application/grpc\r\n",
                BodyLength::Chunked,
            ),
        ] {
            let mut response = Response::builder().status(status);
            for (name, value) in fields {
                response = response.header(*name, *value);
            }
            let parts = response.body(()).expect("a response").into_parts().0;
            let (mut head, mut into) = (ResponseHead::default(), [0; 1000]);
            let filled = read_response(&parts, ends, method, &mut head, &mut into).expect("sound");
            let text = String::from_utf8_lossy(&into[..filled]).into_owned();
            assert_eq!(text, format!("HTTP/2.0 {status} \r\n{expected}\r\n"));
            assert_eq!((head.status, head.length, head.body), (status, filled, body), "{expected}");
            assert_eq!(head.fields.first().map_or(filled - 2, |field| field.name.start()), head.fields_start);
        }
    }

    #[test]
    fn what_would_be_ambiguous_is_refused() {
        let read = |status: u16, fields: &[(&str, &str)], room: usize| {
            let mut response = Response::builder().status(status);
            for (name, value) in fields {
                response = response.header(*name, *value);
            }
            let parts = response.body(()).expect("a response").into_parts().0;
            read_response(&parts, false, Method::Get, &mut ResponseHead::default(), &mut vec![0; room])
        };
        assert!(read(200, &[("content-length", "3"), ("content-length", "4")], 1000).is_err());
        assert!(read(200, &[("content-length", "x")], 1000).is_err());
        assert!(read(600, &[], 1000).is_err());
        assert!(read(200, &[("connection", "close")], 1000).is_err());
        assert!(read(200, &[("transfer-encoding", "chunked")], 1000).is_err());
        assert_eq!(read(200, &[("x", "y")], 23), Ok(23));
        assert_eq!(read(200, &[("x", "y")], 22), Err(ResponseError("upstream sent too big header")));
    }
}
