//! Keys that stand in public examples.

/// The keys of APISIX's own examples. Whoever can reach the Admin API with one of them owns the gateway.
const ADMIN_KEYS: [&str; 2] = ["edd1c9f034335f136f87ad84b625c8f1", "4054f7cf07e344346cd3f287985e76a2"];

/// Returns whether an admin key stands in public examples.
#[must_use]
pub fn is_well_known_admin_key(key: &str) -> bool {
    ADMIN_KEYS.contains(&key)
}
