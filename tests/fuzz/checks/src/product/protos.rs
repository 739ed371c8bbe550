//! Protobuf definitions.

use ::protos::Definitions;

/// A `.proto` file or a descriptor set: it compiles, each time, or is refused with words.
pub fn definitions(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if has_odd_octal(text) {
        return;
    }
    match Definitions::compile(text) {
        Ok(_) => assert!(Definitions::compile(text).is_ok()),
        Err(error) => assert!(!error.is_empty()),
    }
}

/// Whether digits begin with 0 and go on with an 8 or a 9 among them. The parser that `protos` uses (protox-parse 0.9)
/// refuses them as an octal number, but takes that for a mistake of its own where debug assertions are on.
fn has_odd_octal(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.any(|number| number.starts_with('0') && number.contains(['8', '9']))
}
