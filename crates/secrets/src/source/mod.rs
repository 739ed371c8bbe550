//! The secret managers, one file each.

mod aws;
mod gcp;
mod gcp_token;
pub mod sigv4;
mod vault;

pub use gcp_token::GoogleTokens;

#[cfg(test)]
pub(crate) mod stand_in;

use crate::http::Client;
use crate::reference::{self, Reference};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// A service that keeps secrets, asked on a thread that may block.
pub(crate) trait Source: Send + Sync {
    /// What is kept under `key`. `config` is the manager's resource, its references to the environment resolved.
    ///
    /// # Errors
    /// Why there is none, without secrets.
    fn fetch(&self, client: &Client, config: Value, key: &str) -> Result<Value, String>;
}

/// The managers by the name that references and keys have.
pub(crate) struct Sources(Vec<(&'static str, Arc<dyn Source>)>);

impl Default for Sources {
    fn default() -> Self {
        Self(vec![
            ("vault", Arc::new(vault::Vault)),
            ("aws", Arc::new(aws::Aws)),
            ("gcp", Arc::<gcp::Gcp>::default()),
        ])
    }
}

impl Sources {
    /// Asks the manager whose resource is called `id` (`vault/1`).
    ///
    /// # Errors
    /// Why there is no value, without secrets.
    pub(crate) fn fetch(
        &self,
        client: &Client,
        id: &str,
        config: &Value,
        key: &str,
    ) -> Result<Value, String> {
        let name = id.split('/').next().unwrap_or_default();
        let Some((_, source)) = self.0.iter().find(|(known, _)| *known == name) else {
            return Err(format!("no secret manager: {name}"));
        };
        let mut config = config.clone();
        resolve_environment(&mut config)?;
        source.fetch(client, config, key)
    }
}

/// A manager's own credentials may be references to the environment. To another manager they may not: two could wait
/// for each other.
fn resolve_environment(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => fields.values_mut().try_for_each(resolve_environment),
        Value::Array(items) => items.iter_mut().try_for_each(resolve_environment),
        Value::String(text) => {
            if let Some(Ok(Reference::Env { name, field })) = Reference::parse(text) {
                *value = reference::env(name, field, &|name| std::env::var(name).ok())?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A manager's resource as its type.
fn read<T: DeserializeOwned>(config: Value) -> Result<T, String> {
    serde_json::from_value(config).map_err(|error| format!("its resource can't be read: {error}"))
}

/// The start of an answer's body, for messages: managers say there what is wrong.
fn excerpt(body: &str) -> &str {
    let end = (0..=200.min(body.len())).rev().find(|end| body.is_char_boundary(*end)).unwrap_or_default();
    body[..end].trim()
}
