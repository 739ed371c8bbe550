//! The target `config_yaml` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::gateway::config_yaml(bytes));
