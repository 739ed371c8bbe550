//! The target `grpc_transcode` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::product::gateway::grpc_transcode(bytes));
