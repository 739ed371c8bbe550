//! Servers whose URLs are known only while a plugin runs: consumers name them, or a provider's discovery document.

use model::ConfigError;
use plugin::{Endpoint, EndpointOptions, UpstreamCompiler};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// URLs that are kept compiled. A configuration asks one provider with some five endpoints; with more than this many the
/// map begins anew, at the cost of new connections.
const SERVERS_MAX: usize = 256;

/// The servers that one configuration asks, compiled when they are asked first: their connections are kept as long.
pub(crate) struct Servers {
    compiler: UpstreamCompiler,
    options: EndpointOptions,
    known: Mutex<HashMap<(String, bool), Endpoint>>,
}

impl Servers {
    /// Servers whose connections are made as `options` say.
    pub(crate) fn new(compiler: UpstreamCompiler, options: EndpointOptions) -> Self {
        Self { compiler, options, known: Mutex::default() }
    }

    /// The server behind `url`.
    ///
    /// # Errors
    /// A URL that is none.
    pub(crate) fn find(&self, url: &str) -> Result<Endpoint, Vec<ConfigError>> {
        self.find_verified(url, self.options.ssl_verify)
    }

    /// As [`Self::find`]; `ssl_verify` says whether its certificate must be valid.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(crate) fn find_verified(&self, url: &str, ssl_verify: bool) -> Result<Endpoint, Vec<ConfigError>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (url.to_owned(), ssl_verify);
        if let Some(endpoint) = known.get(&key) {
            return Ok(endpoint.clone());
        }
        let endpoint = self.compiler.endpoint(url, EndpointOptions { ssl_verify, ..self.options })?;
        if known.len() >= SERVERS_MAX {
            known.clear();
        }
        known.insert(key, endpoint.clone());
        Ok(endpoint)
    }
}
