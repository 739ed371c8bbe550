//! Certificates: what an ssl resource puts into the snapshot.

use crate::resource::{Form, Resource};
use model::ConfigError;
use model::resource::{Ssl, SslSide};
use std::collections::HashMap;
use std::sync::Arc;
use tls::{Entry, Identity, Site, Sites};

/// Compiles an ssl resource whose certificates and keys are in PEM.
///
/// # Errors
/// Every mistake, with its path in the resource.
pub(crate) fn compile(key: &str, written: &Ssl) -> Result<Entry, Vec<ConfigError>> {
    match written.side {
        SslSide::Client => Identity::from_pem(&written.cert, &written.key)
            .map(|identity| Entry::Client(Arc::new(identity)))
            .map_err(|error| vec![ConfigError::new("/cert", error.to_string())]),
        SslSide::Server => {
            let (site, refused) = Site::compile(written)?;
            for refusal in refused {
                tracing::warn!(key, path = "/ssl_protocols", "{refusal}");
            }
            Ok(if written.enabled() { Entry::Site(Arc::new(site)) } else { Entry::Off })
        }
    }
}

/// All certificates, with what each resource has put there.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    /// As the snapshot has them.
    pub(crate) sites: Sites,
    shown: HashMap<Box<str>, Entry>,
}

impl Certificates {
    /// Shows what the resource `id` has become, and no longer what it was.
    pub(crate) fn relink(&mut self, id: &str, now: Option<&Resource>) {
        if let Some(before) = self.shown.remove(id) {
            self.sites.remove(id, &before);
        }
        if let Some(Resource { form: Form::Ssl(entry), .. }) = now {
            self.sites.insert(id, entry);
            self.shown.insert(id.into(), entry.clone());
        }
    }
}
