//! Parses a request's and a response's head in a loop, so that an instruction counter can tell what one costs:
//!
//! ```shell
//! cargo build --release -p wire --example parse_cost
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*parse_requests*' \
//!     target/release/examples/parse_cost 10000
//! ```
//!
//! and the same with `*parse_responses*`. The heads are those of a load generator and of a plain server.

use std::hint::black_box;
use wire::{Method, RequestHead, RequestView, ResponseHead};

const REQUEST: &[u8] = b"GET /hello HTTP/1.1\r\nHost: 127.0.0.1:9080\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 22 Nov 2026 04:28:04 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\nhello world\n";

#[inline(never)]
fn parse_requests(count: usize) -> usize {
    let mut head = RequestHead::default();
    let mut paths = 0;
    for _ in 0..count {
        let bytes = black_box(REQUEST);
        if head.parse(bytes).is_ok_and(|complete| complete) {
            let view = RequestView { head: &head, bytes };
            paths += view.normal_path().map_or(0, |path| path.len()) + view.host().len();
        }
    }
    paths
}

#[inline(never)]
fn parse_responses(count: usize) -> usize {
    let mut head = ResponseHead::default();
    (0..count).filter(|_| head.parse(black_box(RESPONSE), Method::Get) == Ok(true)).count()
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let read = parse_requests(black_box(count)) + parse_responses(black_box(count));
    assert!(black_box(read) > count, "the heads are complete");
}
