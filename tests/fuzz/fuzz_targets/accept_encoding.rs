//! The target `accept_encoding` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::files::accept_encoding(bytes));
