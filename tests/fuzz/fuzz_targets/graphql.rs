//! The target `graphql` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::plugin::graphql(bytes));
