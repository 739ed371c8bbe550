//! `protos`: what plugins that name one are compiled with.

use model::{ConfigError, Kind};
use protos::Definitions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All definitions by id.
#[derive(Debug, Default)]
pub(crate) struct Protos(BTreeMap<String, Proto>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Proto {
    /// What the store holds for it.
    pub(crate) stored: Arc<[u8]>,
    pub(crate) definitions: Arc<Definitions>,
}

impl Protos {
    /// The one with this id.
    pub(crate) fn get(&self, id: &str) -> Option<&Proto> {
        self.0.get(id)
    }

    /// The ids of all.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Compiles what the store holds for `id`.
    ///
    /// # Errors
    /// Every mistake; the definitions before stay.
    pub(crate) fn put(&mut self, id: &str, stored: &Arc<[u8]>) -> Result<(), Vec<ConfigError>> {
        let value =
            serde_json::from_slice(stored).map_err(|error| vec![ConfigError::new("", error.to_string())])?;
        let proto: model::resource::Proto = model::schema::read_resource(Kind::Proto, &value)?;
        let definitions = Definitions::compile(&proto.content)
            .map_err(|message| vec![ConfigError::new("/content", message)])?;
        let proto = Proto { stored: Arc::clone(stored), definitions: Arc::new(definitions) };
        self.0.insert(id.to_owned(), proto);
        Ok(())
    }

    /// Forgets one; whether it was there.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        self.0.remove(id).is_some()
    }
}
