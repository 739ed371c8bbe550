//! The target `multipart` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::plugin::multipart(bytes));
