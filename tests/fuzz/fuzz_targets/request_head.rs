//! Fuzzes `checks/wire/request_head.rs`.
#![no_main]

#[path = "../checks/wire/mod.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::request_head::check(bytes));
