//! A stored resource, with what is encrypted decrypted and what is referred to put in its place.

use crate::limits::{FIRST_WAIT_MAX, START_WAIT_MAX};
use crate::reference::ManagedRef;
use crate::references::References;
use crate::resolve::Resolver;
use crate::sealing::Sealing;
use model::Kind;
use regex::bytes::Regex;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Instant;

/// What the snapshot's builder needs to know of secrets.
#[derive(Debug)]
pub struct Secrets {
    sealing: Arc<Sealing>,
    references: References,
    /// The plugins whose configuration in a consumer is a credential.
    auth_plugins: Vec<Arc<str>>,
    /// What a resource has in it that may have to be revealed.
    needles: Regex,
}

/// A resource, revealed.
#[derive(Debug)]
pub struct Revealed {
    /// The resource as JSON.
    pub value: Arc<[u8]>,
    /// The references that it was made with: when one changes, it has to be made again.
    pub references: Vec<ManagedRef>,
}

impl Secrets {
    /// Secrets with these keys. `auth_plugins` are the plugins for which consumers hold credentials.
    #[must_use]
    pub fn new(sealing: Arc<Sealing>, references: References, auth_plugins: Vec<Arc<str>>) -> Self {
        let plugins: String = sealing.plugins().map(|name| format!("|\"{}\"", regex::escape(name))).collect();
        // Neither has a slash: APISIX writes those as `\/`.
        let needles = format!(r#"\$tg1\$|\$secret:|(?i:\$env:)|"client_key"{plugins}"#);
        let needles = Regex::new(&needles).expect("escaped names among constants are a regular expression");
        Self { sealing, references, auth_plugins, needles }
    }

    /// The values behind references.
    #[must_use]
    pub fn references(&self) -> &References {
        &self.references
    }

    /// Until when values that aren't known yet are waited for while a snapshot is made; `first` for the process's first.
    #[must_use]
    pub fn patience(first: bool) -> Instant {
        Instant::now() + if first { START_WAIT_MAX } else { FIRST_WAIT_MAX }
    }

    /// Takes in the resource of a secret manager (`id` is `vault/1`) as the store holds it; `None` where it was deleted.
    pub fn manager(&self, id: &str, stored: Option<&[u8]>) {
        let config = stored.and_then(|stored| serde_json::from_slice::<Map<String, Value>>(stored).ok());
        let config = config.map(|mut config| {
            self.sealing.open(Kind::Secret, id, &mut config);
            Value::Object(config)
        });
        self.references.manager(id, config);
    }

    /// Reveals the resource `key` of `kind` called `id`, as the store holds it. A reference that can't be resolved stays
    /// as it is, as in APISIX; a credential of a consumer with such a reference is left out, since its text is known to
    /// whoever reads the configuration.
    #[must_use]
    pub fn reveal(&self, kind: Kind, id: &str, key: &str, stored: &Arc<[u8]>, until: Instant) -> Revealed {
        let plain = || Revealed { value: Arc::clone(stored), references: Vec::new() };
        if kind != Kind::Ssl && !self.needles.is_match(stored) {
            return plain();
        }
        // What is no object is the compiler's to refuse.
        let Ok(mut resource) = serde_json::from_slice::<Map<String, Value>>(stored) else { return plain() };
        self.sealing.open(kind, id, &mut resource);
        let mut resolver = Resolver { references: &self.references, until, key, met: Vec::new() };
        self.resolve(kind, &mut resource, &mut resolver);
        let references = resolver.met;
        // A map of text keys and JSON values can't fail to be written.
        let value = serde_json::to_vec(&resource).unwrap_or_default();
        Revealed { value: value.into(), references }
    }

    fn resolve(&self, kind: Kind, resource: &mut Map<String, Value>, resolver: &mut Resolver<'_>) {
        match kind {
            Kind::Ssl => {
                resolver.fields(resource);
            }
            Kind::Upstream => tls(resource, resolver),
            _ => {}
        }
        if let Some(Value::Object(upstream)) = resource.get_mut("upstream") {
            tls(upstream, resolver);
        }
        let Some(Value::Object(plugins)) = resource.get_mut("plugins") else { return };
        let credentials = matches!(kind, Kind::Consumer | Kind::Credential);
        plugins.retain(|name, config| {
            let unresolved = resolver.value(config, name);
            let keep =
                unresolved == 0 || !credentials || !self.auth_plugins.iter().any(|auth| **auth == **name);
            if !keep {
                tracing::error!(
                    key = resolver.key,
                    plugin = name,
                    "failed to resolve secret reference in consumer auth credential, skipping it"
                );
            }
            keep
        });
    }
}

fn tls(upstream: &mut Map<String, Value>, resolver: &mut Resolver<'_>) {
    if let Some(tls) = upstream.get_mut("tls") {
        resolver.value(tls, "tls");
    }
}

#[cfg(test)]
mod tests;
