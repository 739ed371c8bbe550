//! The end-to-end tests: what the product promises, asked of its real binary.

#![expect(clippy::unwrap_used, reason = "tests")]

mod bodies;
mod connections;
mod headers;
mod limits;
mod protocol;
mod study;
mod upstreams;
mod websocket;
