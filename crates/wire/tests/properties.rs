//! What must hold on any input, tried on random input and on the seeds of the fuzz targets.

#[path = "../../../tests/fuzz/checks/src/wire/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "a module of the library of fuzz targets")]
mod checks;

use proptest::prelude::*;
use std::path::Path;

/// Every seed of a target runs through its check.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/seeds").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the seeds are there") {
        check(&std::fs::read(entry.expect("readable").path()).expect("readable"));
        count += 1;
    }
    assert!(count > 0, "no seeds in {}", folder.display());
}

#[test]
fn seeds_of_the_fuzz_targets() {
    replay("request_head", checks::request_head::check);
    replay("response_head", checks::response_head::check);
    replay("chunked_body", checks::chunked_body::check);
    replay("http2_request", checks::http2::request);
    replay("http2_response", checks::http2::response);
    replay("proxy_protocol", checks::proxy_protocol::check);
    replay("range", checks::range::check);
}

/// A header line; most are sound, so that whole heads are.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let sound: &[&[u8]] = &[
        b"Connection: close, x\r\n",
        b"Connection: keep-alive\r\n",
        b"Connection: upgrade\r\n",
        b"Upgrade: websocket\r\n",
        b"Upgrade: h2c\r\n",
        b"Expect: 100-continue\r\n",
        b"X: \t y \t\r\n",
        b"X:\r\n",
        b"X-Empty: \r\n",
        b"X: \x80\xff\r\n",
    ];
    let framing: &[&[u8]] = &[
        b"Host:\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content_Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
    ];
    let broken: &[&[u8]] = &[
        b"User\rAgent: y\r\n",
        b"Transfer\rEncoding: chunked\r\n",
        b"X : y\r\n",
        b" folded\r\n",
        b"X: y\n",
        b"X: a\rb\r\n",
        b"X: a\0b\r\n",
        b"\r\n",
        b"\n",
        b"\r",
    ];
    let random = "[!#-'*+.^_`|~0-9A-Za-z-]{1,12}:[ \t]{0,2}[ -~]{0,20}[ \t]{0,2}\r\n";
    prop_oneof![
        20 => prop::sample::select(sound).prop_map(<[u8]>::to_vec),
        9 => prop::sample::select(framing).prop_map(<[u8]>::to_vec),
        9 => random.prop_map(String::into_bytes),
        1 => prop::sample::select(broken).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn request_line() -> impl Strategy<Value = Vec<u8>> {
    let method = prop_oneof![8 => "GET|POST|HEAD|OPTIONS|M-SEARCH", 1 => "CONNECT|get", 1 => "[ -~]{0,4}"];
    let target = prop_oneof![
        6 => "/[a-z./?]{0,12}",
        1 => "/[a-z%/?#]{0,12}",
        3 => "https?://[a-z.:@0-9]{0,8}(/[a-z?]{0,6})?",
        1 => "\\*|[ -~]{0,8}",
    ];
    let version =
        prop_oneof![9 => "HTTP/1\\.1", 2 => "HTTP/1\\.0", 1 => "HTTP/[0-9]\\.[0-9]|http/1.1|[ -~]{0,8}"];
    let end = prop::sample::select(["\r\n"; 9].into_iter().chain(["\n"]).collect::<Vec<_>>());
    (method, target, version, end)
        .prop_map(|(method, target, version, end)| format!("{method} {target} {version}{end}").into_bytes())
}

fn head(first_line: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let host = prop::sample::select(vec!["Host: a\r\n", "host:\tA.b:80 \r\n", "HOST: [::1]\r\n", ""]);
    (first_line, host, prop::collection::vec(field(), 0..8))
        .prop_map(|(line, host, fields)| [&line, host.as_bytes(), &fields.concat(), b"\r\n"].concat())
}

fn status_line() -> impl Strategy<Value = Vec<u8>> {
    "HTTP/1\\.[01] (200|204|304|101|103|[0-9]{3})( [ -~]{0,9})?\r?\n".prop_map(String::into_bytes)
}

fn chunks() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&[u8]] = &[
        b"5\r\nhello\r\n",
        b"1;x=y\r\na\r\n",
        b"1 ;x\r\na\r\n",
        b"05\r\nhello\r\n",
        b"5 \r\nhello\r\n",
        b"5\nhello\r\n",
        b"0\r\n",
        b"0;x\r\n",
        b"X: y\r\n",
        b"Host: y\r\n",
        b"\r\n",
        b"\n",
        b"f",
        b"fffffffffffffff\r\n",
    ];
    let piece = prop_oneof![
        9 => prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| [pieces.concat(), b"0\r\n\r\n".to_vec()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn requests(bytes in head(request_line())) {
        checks::request_head::check(&bytes);
        checks::http2::request(&bytes);
    }

    #[test]
    fn responses(bytes in head(status_line())) {
        checks::response_head::check(&bytes);
        checks::http2::response(&bytes);
    }

    #[test]
    fn chunked_bodies(bytes in chunks()) {
        checks::chunked_body::check(&bytes);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        checks::request_head::check(&bytes);
        checks::response_head::check(&bytes);
        checks::chunked_body::check(&bytes);
    }

    #[test]
    fn paths(path in "/[./%2efa0Z]{0,24}") {
        checks::request_head::check(path.as_bytes());
    }
}
