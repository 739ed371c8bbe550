//! The fuzz targets: functions that take any bytes and panic where something that must hold doesn't.
//!
//! Two drivers run them. `tests/smoke.rs` here needs nothing but stable Rust and runs in CI; the crate in the folder
//! above hands them to libFuzzer (`cargo xtask fuzz`).

pub mod mutate;
#[cfg(feature = "product")]
pub mod product;
pub mod router;
pub mod wire;

/// A function that holds on any input, or finds a mistake.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of its file in `fuzz_targets` and of its folder in `seeds`.
    pub name: &'static str,
    /// Panics where something that must hold for these bytes doesn't.
    pub check: fn(&[u8]),
    /// Words of its language, which the mutator of the stable driver inserts.
    pub words: &'static [&'static str],
}

/// Every target of this build: those of the product's other parts need the feature `product`.
#[must_use]
pub fn targets() -> Vec<Target> {
    #[allow(unused_mut, reason = "without the feature there are no others")]
    let mut all = TARGETS.to_vec();
    #[cfg(feature = "product")]
    all.extend(product::TARGETS);
    all
}

/// The targets of the codec and the router, by name.
const TARGETS: &[Target] = &[
    Target { name: "chunked_body", check: wire::chunked_body::check, words: CHUNKS },
    Target { name: "http2_request", check: wire::http2::request, words: HEADS },
    Target { name: "http2_response", check: wire::http2::response, words: HEADS },
    Target {
        name: "proxy_protocol",
        check: wire::proxy_protocol::check,
        words: &[
            "PROXY ",
            "TCP4 ",
            "TCP6 ",
            "UNKNOWN",
            "1.2.3.4",
            "::1",
            "65535",
            "65536",
            "\r\n\r\n\0\r\nQUIT\n",
            "\r\n",
        ],
    },
    Target {
        name: "range",
        check: wire::range::check,
        words: &["bytes=", "0-", "-1", ",", "-", "18446744073709551615", "0-0", " ", "items="],
    },
    Target { name: "request_head", check: wire::request_head::check, words: HEADS },
    Target { name: "response_head", check: wire::response_head::check, words: HEADS },
    Target {
        name: "router",
        check: router::routes::check,
        words: &["*", "/", ":a", "a.b", "*.b", "GET", "!1", "\n", " ", "-", ","],
    },
    Target {
        name: "vars_expression",
        check: router::vars_expression::check,
        words: &[
            "\"AND\"",
            "\"OR\"",
            "\"!AND\"",
            "\"==\"",
            "\"~~\"",
            "\"in\"",
            "\"ipmatch\"",
            "[",
            "]",
            "null",
        ],
    },
];

const HEADS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\0",
    ":",
    ": ",
    " ",
    "\t",
    "_",
    "-",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content_Length: 5\r\n",
    "Connection: close\r\n",
    "Connection: upgrade, x\r\n",
    "Upgrade: websocket\r\n",
    "Expect: 100-continue\r\n",
    "User-Agent: x\r\n",
    "X-Forwarded-For: y\r\n",
    "Keep-Alive: 5\r\n",
    "TE: trailers\r\n",
    "cookie: a=1\r\n",
    "content-type: application/grpc\r\n",
    "grpc-status: 0\r\n",
    "GET / HTTP/1.1\r\n",
    "POST http://a/b?c HTTP/1.1\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0",
    "\u{80}",
];

const CHUNKS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "0\r\n",
    "\r\n\r\n",
    ";",
    ";a=b",
    "f",
    "5\r\nhello\r\n",
    "X: y\r\n",
    "Host: a\r\n",
    " ",
];
