//! One `ssls` resource, compiled: its certificates, and what its names demand of clients.

use crate::client_auth::{ClientAuth, Verifier};
use crate::{Identity, IdentityError, Protocols, Refusal, Verdict};
use model::ConfigError;
use model::resource::Ssl;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, Mutex, PoisonError};

/// What clients that ask for certain names are shown.
#[derive(Debug)]
pub struct Site {
    /// In lower case, without a final dot.
    names: Vec<String>,
    /// Cheap ones first: of several that suit a client the first is shown.
    identities: Arc<[Identity]>,
    client: Option<Arc<ClientAuth>>,
    /// `None`: the gateway-wide setting.
    protocols: Option<Protocols>,
    /// Made at the first handshake, for the server of this number: of 100,000 sites most see none for long.
    config: Mutex<Option<(u64, Arc<ServerConfig>)>>,
}

impl Site {
    /// Compiles `written`, whose certificates and keys are in PEM. Beside the site: versions of TLS that it asks for
    /// in vain.
    ///
    /// # Errors
    /// Every mistake, with its path in the resource.
    pub fn compile(written: &Ssl) -> Result<(Self, Vec<Refusal>), Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut identities = Vec::new();
        for (at, (chain, key)) in written.pairs().enumerate() {
            match Identity::from_pem(chain, key) {
                Ok(identity) => identities.push(identity),
                Err(error) => errors.push(ConfigError::new(path(at, &error), error.to_string())),
            }
        }
        identities.sort_by_key(|identity| !identity.is_elliptic());
        let client = match written.client.as_ref().map(ClientAuth::compile) {
            None => None,
            Some(Ok(client)) => Some(Arc::new(client)),
            Some(Err(found)) => {
                errors.extend(found.into_iter().map(|error| error.under("/client")));
                None
            }
        };
        let (protocols, refused) = match &written.ssl_protocols {
            None => (None, Vec::new()),
            Some(names) => {
                let (protocols, refused) = Protocols::parse(names.iter().map(String::as_str));
                (Some(protocols), refused)
            }
        };
        if let (Some(none), Some(first)) = (protocols.filter(|p| p.is_empty()), refused.first()) {
            let _ = none;
            errors.push(ConfigError::new("/ssl_protocols", format!("no version is left: {first}")));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let names = written.names().map(normal).collect();
        let config = Mutex::default();
        Ok((Self { names, identities: identities.into(), client, protocols, config }, refused))
    }

    /// The names, in lower case: exact, or patterns that begin with `*`.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether clients are asked for a certificate.
    #[must_use]
    pub fn asks_clients(&self) -> bool {
        self.client.is_some()
    }

    /// Whether requests for `path` need a verified client certificate.
    #[must_use]
    pub fn guards(&self, path: &[u8]) -> bool {
        self.client.as_ref().is_some_and(|client| client.guards(path))
    }

    pub(crate) fn verdict(&self, chain: &[CertificateDer<'_>]) -> Verdict {
        self.client.as_ref().map_or(Verdict::None, |client| client.verdict(chain))
    }

    pub(crate) fn protocols(&self) -> Option<Protocols> {
        self.protocols
    }

    pub(crate) fn verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        self.client.as_ref().map(|client| Arc::new(Verifier(Arc::clone(client))) as _)
    }

    pub(crate) fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::new(Shown(Arc::clone(&self.identities)))
    }

    /// What handshakes are done with; made by `make` for the server of this number.
    pub(crate) fn config(
        &self,
        server: u64,
        make: impl FnOnce() -> Result<Arc<ServerConfig>, rustls::Error>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut slot = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some((owner, config)) if *owner == server => Ok(Arc::clone(config)),
            _ => {
                let config = make()?;
                *slot = Some((server, Arc::clone(&config)));
                Ok(config)
            }
        }
    }
}

/// A server name as it is compared: in lower case, without a final dot.
pub(crate) fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Where in the resource the pair number `at` is wrong.
fn path(at: usize, error: &IdentityError) -> String {
    let field = if matches!(error, IdentityError::Certificate(_)) { "cert" } else { "key" };
    match at.checked_sub(1) {
        None => format!("/{field}"),
        Some(more) => format!("/{field}s/{more}"),
    }
}

/// Shows the first certificate that the client can verify.
#[derive(Debug)]
struct Shown(Arc<[Identity]>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let suits = |identity: &&Identity| identity.suits(hello.signature_schemes());
        let shown = self.0.iter().find(suits).or(self.0.first())?;
        Some(Arc::clone(shown.certified()))
    }
}
