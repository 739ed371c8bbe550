//! The target `vars_expression` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::router::vars_expression::check(bytes));
