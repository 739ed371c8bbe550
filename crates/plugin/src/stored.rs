//! A resource as the store holds it, for plugins that pass it on.

use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// The JSON text of a resource, shared with the snapshot's builder: keeping it costs nothing, and it is parsed when a
/// plugin asks. Fields that the store holds encrypted are encrypted here too, and references to secrets are not resolved.
#[derive(Clone, Default)]
pub struct Stored(Arc<[u8]>);

impl Stored {
    /// The resource with this JSON text.
    #[must_use]
    pub fn new(text: Arc<[u8]>) -> Self {
        Self(text)
    }

    /// The resource's members; `None` where there is no resource.
    #[must_use]
    pub fn members(&self) -> Option<Map<String, Value>> {
        serde_json::from_slice(&self.0).ok()
    }
}

/// Resources hold secrets, and `Debug` ends in logs.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_resource_is_parsed_and_never_shown() {
        let stored = Stored::new(Arc::from(&br#"{"id": "1", "key": "hidden"}"#[..]));
        assert_eq!(stored.members().map(Value::Object), Some(json!({"id": "1", "key": "hidden"})));
        assert_eq!(format!("{stored:?}"), "Stored(28 bytes)");
        assert_eq!(Stored::default().members(), None);
    }
}
