//! The target `chunked_body` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::wire::chunked_body::check(bytes));
