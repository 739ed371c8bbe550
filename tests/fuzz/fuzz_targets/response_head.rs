//! Fuzzes `checks/wire/response_head.rs`.
#![no_main]

#[path = "../checks/wire/mod.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::response_head::check(bytes));
