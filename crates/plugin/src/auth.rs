//! What makes a plugin an auth plugin: consumers hold credentials for it.

use crate::Plugin;
use model::ConfigError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::{Any, TypeId};
use std::sync::Arc;

/// The consumer's side of an auth plugin. [`Plugin`] is the route's: which header to look into, what to answer.
pub trait Authenticator: Plugin {
    /// What stands in a consumer or credential under the plugin's name.
    type CredentialConfig: DeserializeOwned;
    /// The compiled form: what a request's claim is checked against.
    type Credential: Send + Sync + 'static;

    /// The JSON Schema of [`Self::CredentialConfig`].
    fn credential_schema() -> Value;

    /// Turns what the schema accepts, defaults filled in, into the compiled form and the key by which requests name it:
    /// an API key, a user's name. Keys are unique for a plugin.
    ///
    /// # Errors
    /// Every mistake that the schema can't see, each with its path in the configuration.
    fn credential(config: Self::CredentialConfig) -> Result<(Vec<u8>, Self::Credential), Vec<ConfigError>>;
}

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

impl ConsumerSide {
    pub(crate) fn of<T: Authenticator>() -> Self {
        Self { schema: T::credential_schema(), compile: Box::new(compile::<T>) }
    }
}

fn compile<T: Authenticator>(config: Value) -> Result<CompiledCredential, Vec<ConfigError>> {
    let config =
        serde_json::from_value(config).map_err(|error| vec![ConfigError::new("", error.to_string())])?;
    let (key, credential) = T::credential(config)?;
    let authenticator = AuthenticatorId::Type(TypeId::of::<T>());
    Ok(CompiledCredential { authenticator, key: key.into(), data: Arc::new(credential) })
}
