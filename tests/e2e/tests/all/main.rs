//! The end-to-end tests: what the product promises, asked of its real binary.

#![expect(clippy::unwrap_used, reason = "tests")]

mod connections;
mod protocol;
mod study;
