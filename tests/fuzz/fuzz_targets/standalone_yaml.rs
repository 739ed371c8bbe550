//! The target `standalone_yaml` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::store::standalone(bytes));
