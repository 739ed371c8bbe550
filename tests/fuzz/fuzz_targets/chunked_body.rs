//! Fuzzes `checks/wire/chunked_body.rs`.
#![no_main]

#[path = "../checks/wire/mod.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::chunked_body::check(bytes));
