//! What consumers hold for auth plugins.

use model::ConfigError;
use serde_json::Value;
use std::any::{Any, TypeId};
use std::sync::Arc;

/// A credential, compiled, whosever it is.
#[derive(Clone)]
pub struct CompiledCredential {
    /// The plugin that compiled it and can read it.
    pub(crate) authenticator: AuthenticatorId,
    /// How requests name it.
    pub(crate) key: Arc<[u8]>,
    /// The plugin's `Credential`.
    pub(crate) data: Arc<dyn Any + Send + Sync>,
}

impl CompiledCredential {
    /// A credential of the plugin called `authenticator`, which came at run time: found by
    /// [`crate::Consumers::find_named`].
    #[must_use]
    pub fn new(
        authenticator: impl Into<Arc<str>>,
        key: impl Into<Arc<[u8]>>,
        data: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { authenticator: AuthenticatorId::Name(authenticator.into()), key: key.into(), data }
    }

    /// How requests name it: an API key, a user's name. A secret.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl std::fmt::Debug for CompiledCredential {
    /// Says nothing of key and content: they are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledCredential").finish_non_exhaustive()
    }
}

/// The consumers' side of an auth plugin's definition.
pub struct ConsumerSide {
    /// The JSON Schema of what consumers and credentials hold for the plugin.
    pub schema: Value,
    /// Turns what the schema accepts, defaults filled in, into a credential.
    pub compile: Box<CompileCredential>,
}

/// Turns what a consumer holds for an auth plugin into a credential, or names every mistake.
pub type CompileCredential = dyn Fn(Value) -> Result<CompiledCredential, Vec<ConfigError>> + Send + Sync;

/// Which plugin made a credential and can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthenticatorId {
    /// The one of this type.
    Type(TypeId),
    /// The one of this name, which came at run time.
    Name(Arc<str>),
}
