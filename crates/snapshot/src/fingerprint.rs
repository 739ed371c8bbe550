//! A fixed hash of a plugin's configuration: equal on all workers, in every process and in every version of the
//! gateway, because counters shared through it must not start anew when a binary is replaced.

use serde_json::Value;
use std::fmt::{self, Write};

/// The version of one plugin's configuration: differs when the plugin, its configuration, its metadata or the
/// definitions (as the store holds them) that it names differ, and doesn't depend on the order of members. 64 bits of FNV-1a: the only ones who could choose colliding inputs are the
/// operators, to no use.
pub(crate) fn fingerprint(
    plugin: &str,
    config: &Value,
    metadata: Option<&Value>,
    proto: Option<&[u8]>,
) -> u64 {
    let mut hash = Fnv::default();
    hash.text(plugin);
    hash.value(config);
    // "No metadata" must differ from any metadata, so it gets a tag that no value has.
    match metadata {
        Some(metadata) => hash.value(metadata),
        None => hash.byte(b'-'),
    }
    if let Some(proto) = proto {
        hash.bytes(proto);
    }
    hash.0
}

/// FNV-1a of 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    /// The length goes first, so that two texts in a row can't pass for two others.
    fn bytes(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        length.iter().chain(bytes).for_each(|byte| self.byte(*byte));
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Each value begins with the tag of its type. Recursion ends where the parser's does: 128 levels.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.byte(b'n'),
            Value::Bool(truth) => self.byte(if *truth { b't' } else { b'f' }),
            Value::Number(number) => {
                self.byte(b'0');
                // Writing to a hash doesn't fail.
                let _ = write!(self, "{number};");
            }
            Value::String(text) => {
                self.byte(b'"');
                self.text(text);
            }
            Value::Array(items) => {
                self.byte(b'[');
                items.iter().for_each(|item| self.value(item));
                self.byte(b']');
            }
            Value::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_unstable_by_key(|(name, _)| *name);
                self.byte(b'{');
                for (name, member) in sorted {
                    self.text(name);
                    self.value(member);
                }
                self.byte(b'}');
            }
        }
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.byte(byte));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_order_of_members_does_not_count_and_everything_else_does() {
        let same = fingerprint("p", &json!({"a": 1, "b": {"c": [1, 2], "d": null}}), None, None);
        assert_eq!(same, fingerprint("p", &json!({"b": {"d": null, "c": [1, 2]}, "a": 1}), None, None));
        for (name, config, metadata) in [
            ("q", json!({"a": 1, "b": {"c": [1, 2], "d": null}}), None),
            ("p", json!({"a": 2, "b": {"c": [1, 2], "d": null}}), None),
            ("p", json!({"a": 1, "b": {"c": [12], "d": null}}), None),
            ("p", json!({"a": 1, "b": {"c": [2, 1], "d": null}}), None),
            ("p", json!({"a": "1", "b": {"c": [1, 2], "d": null}}), None),
            ("p", json!({"a": 1, "b": {"c": [1, 2], "d": null}}), Some(json!({}))),
        ] {
            assert_ne!(
                fingerprint(name, &config, metadata.as_ref(), None),
                same,
                "{name} {config} {metadata:?}"
            );
        }
        assert_ne!(fingerprint("p", &json!({}), None, None), fingerprint("p", &json!({}), None, Some(b"")));
    }

    #[test]
    fn the_hash_never_changes() {
        let mut fnv = Fnv::default();
        fnv.byte(b'a');
        assert_eq!(fnv.0, 0xaf63_dc4c_8601_ec8c, "the published value of FNV-1a");
        // Counters outside this process are found by such numbers.
        assert_eq!(
            fingerprint("p", &json!({"b": [true, null, 1.5], "a": "x"}), None, None),
            2_699_266_135_873_363_794
        );
    }
}
