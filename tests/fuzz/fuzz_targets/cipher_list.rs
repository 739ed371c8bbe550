//! The target `cipher_list` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::tls::cipher_list(bytes));
