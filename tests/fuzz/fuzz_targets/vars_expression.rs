//! Fuzzes `checks/router/vars_expression.rs`.
#![no_main]

#[path = "../checks/router/mod.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::vars_expression::check(bytes));
