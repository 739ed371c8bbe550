//! The target `proxy_protocol` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::wire::proxy_protocol::check(bytes));
