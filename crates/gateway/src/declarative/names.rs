//! The ids that ADC gives to what has a name and no id, so that it and this command mean the same resources.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// ADC's id of a resource: SHA-1 of its name, with that of what it stands in before it (`service.route`).
pub(crate) fn id_of(parent: Option<&str>, name: &str) -> String {
    let whole = parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}.{name}"));
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, whole.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_adc_s() {
        assert_eq!(id_of(None, "abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(id_of(Some("a"), "b"), id_of(None, "a.b"));
    }
}
