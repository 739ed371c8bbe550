//! What the store holds encrypted: sealed on every write, opened before a PATCH changes it, shown in the clear where
//! APISIX does. What a client sends back sealed is opened before it is checked.
//!
//! As in APISIX the answer to a write has the resource as it was stored, sealed; a GET shows plugins' fields in the
//! clear. Private keys are shown by neither.

use crate::Admin;
use model::Kind;
use secrets::Sealing;
use serde_json::{Map, Value};
use std::sync::Arc;

impl Admin {
    /// The same Admin API, which encrypts what is secret. Without it resources are stored as they are sent.
    #[must_use]
    pub fn with_sealing(self, sealing: Arc<Sealing>) -> Self {
        Self { sealing: Some(sealing), ..self }
    }

    /// Encrypts what is secret in the resource that is to be stored under `key`.
    pub(crate) fn seal(&self, key: &str, resource: &mut Map<String, Value>) {
        self.step(Sealing::seal, key, resource);
    }

    /// Decrypts all that is encrypted in the resource stored under `key`.
    pub(crate) fn open(&self, key: &str, resource: &mut Map<String, Value>) {
        self.step(Sealing::open, key, resource);
    }

    /// Decrypts what the client was shown encrypted and sends back in the resource to be stored under `key`.
    pub(crate) fn accept(&self, key: &str, resource: &mut Map<String, Value>) {
        self.step(Sealing::accept, key, resource);
    }

    /// Decrypts what the Admin API shows of the resource stored under `key`.
    pub(crate) fn show(&self, key: &str, resource: &mut Map<String, Value>) {
        self.step(Sealing::show, key, resource);
        self.show_written(key, resource);
    }

    /// Decrypts what the answer to a write shows: that secrets' access data is stored encrypted is ours, and APISIX's
    /// answers have it as it was sent.
    pub(crate) fn show_written(&self, key: &str, resource: &mut Map<String, Value>) {
        if matches!(Kind::parse_key(key), Some((Kind::Secret, _))) {
            self.open(key, resource);
        }
    }

    fn step(
        &self,
        step: fn(&Sealing, Kind, &str, &mut Map<String, Value>),
        key: &str,
        resource: &mut Map<String, Value>,
    ) {
        if let (Some(sealing), Some((kind, id))) = (&self.sealing, Kind::parse_key(key)) {
            step(sealing, kind, id, resource);
        }
    }
}
