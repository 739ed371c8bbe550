//! The target `nginx_conf` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::import::nginx_conf(bytes));
