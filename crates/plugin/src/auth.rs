//! What makes a plugin an auth plugin: consumers hold credentials for it.

use crate::credential::{AuthenticatorId, CompiledCredential, ConsumerSide};
use crate::{Consumers, Identity, Plugin};
use model::ConfigError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::TypeId;
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

impl Consumers {
    /// Whose the credential of plugin `T` with this key is, and what it says.
    #[must_use]
    pub fn find<T: Authenticator>(&self, key: &[u8]) -> Option<(&Identity, &T::Credential)> {
        let identity = self.index(&AuthenticatorId::Type(TypeId::of::<T>()))?.get(key)?.last()?;
        Some((identity, identity.credential.data.downcast_ref()?))
    }

    /// Whether anybody has a credential of plugin `T`.
    #[must_use]
    pub fn any<T: Authenticator>(&self) -> bool {
        self.index(&AuthenticatorId::Type(TypeId::of::<T>())).is_some_and(|index| !index.is_empty())
    }
}
