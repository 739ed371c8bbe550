//! The server's side: settings that all sites share (`apisix.ssl`), and the choice of a site for a handshake.

use crate::site::normal;
use crate::{Protocols, Refusal, Site, Sites, ciphers, provider};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache, StoresServerSessions,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Sessions remembered where tickets are off, for the whole process: with about 300 bytes each 10 MiB, as many as fit
/// into APISIX's cache of 20 MB at half that time.
const SESSIONS_MAX: usize = 32 * 1024;

/// What `apisix.ssl` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// `ssl_protocols`.
    pub protocols: Protocols,
    /// `ssl_ciphers`; `None`: all that are spoken.
    pub ciphers: Option<String>,
    /// `ssl_session_tickets`: sessions are kept by the client, sealed, rather than by the gateway.
    pub tickets: bool,
    /// `fallback_sni`: the name of clients that ask for none.
    pub fallback_sni: Option<String>,
    /// Protocols offered, by their ALPN names, the preferred one first.
    pub alpn: Vec<&'static str>,
}

/// The server's side of TLS.
#[derive(Debug)]
pub struct Server {
    /// Names these settings, so that sites know for which ones they were prepared.
    uid: u64,
    provider: Arc<CryptoProvider>,
    protocols: Protocols,
    tickets: bool,
    fallback_sni: Option<String>,
    alpn: Vec<Vec<u8>>,
}

/// The site chosen for a handshake.
#[derive(Debug)]
pub struct Choice {
    /// The site.
    pub site: Arc<Site>,
    /// The name asked for, in lower case, or the fallback's.
    pub server_name: Box<str>,
    /// What the handshake is done with.
    pub config: Arc<ServerConfig>,
}

impl Server {
    /// Compiles the settings. Beside the server: cipher suites asked for in vain.
    ///
    /// # Errors
    /// Where nothing is left to speak.
    pub fn new(options: &ServerOptions) -> Result<(Self, Vec<Refusal>), rustls::Error> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let mut provider = provider::base();
        let mut refused = Vec::new();
        if let Some(list) = &options.ciphers {
            let (suites, in_vain) = ciphers::parse(list);
            ciphers::restrict(&mut provider, &suites);
            refused = in_vain;
        }
        let mut protocols = options.protocols;
        // Without a suite of TLS 1.2 there is no TLS 1.2.
        protocols.tls12 &= provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
        if protocols.is_empty() {
            return Err(rustls::Error::General(
                "no version of TLS and cipher suite is left to speak".to_owned(),
            ));
        }
        let server = Self {
            uid: SERIAL.fetch_add(1, Ordering::Relaxed),
            provider: Arc::new(provider),
            protocols,
            tickets: options.tickets,
            fallback_sni: options.fallback_sni.as_deref().map(normal),
            alpn: options.alpn.iter().map(|name| name.as_bytes().to_vec()).collect(),
        };
        Ok((server, refused))
    }

    /// The site for a client, by the name that it asks for.
    ///
    /// # Errors
    /// That no site has the name, or what its settings leave nothing of; for the log.
    pub fn choose(&self, hello: &ClientHello<'_>, sites: &Sites) -> Result<Choice, String> {
        let Some(name) = hello.server_name().map(normal).or_else(|| self.fallback_sni.clone()) else {
            return Err(
                "failed to find SNI: the client named no server, and there is no fallback_sni".to_owned()
            );
        };
        let Some(site) = sites.find(&name) else {
            return Err(format!("failed to match any SSL certificate by SNI: {name}"));
        };
        let config = site.config(self.uid, || self.config(site));
        let config =
            config.map_err(|error| format!("SSL certificate of SNI {name} can't be used: {error}"))?;
        Ok(Choice { site: Arc::clone(site), server_name: name.into(), config })
    }

    fn config(&self, site: &Site) -> Result<Arc<ServerConfig>, rustls::Error> {
        self.handshakes(site.protocols(), site.verifier(), site.resolver())
    }

    /// Returns the configuration of handshakes that show what `resolver` chooses, and ask clients for what `verifier`
    /// accepts. `protocols` goes before the versions of these settings.
    pub(crate) fn handshakes(
        &self,
        protocols: Option<Protocols>,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
        resolver: Arc<dyn ResolvesServerCert>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut protocols = protocols.unwrap_or(self.protocols);
        protocols.tls12 &= self.provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&protocols.versions())?;
        let resumes = verifier.is_none();
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols.clone_from(&self.alpn);
        if !resumes {
            // A resumed session would vouch for a client whose certificate is no longer accepted.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else if self.tickets {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.ticketer = provider::ticketer()?;
        } else {
            config.session_storage = sessions();
        }
        Ok(Arc::new(config))
    }
}

/// The sessions of the process; a reload keeps them.
fn sessions() -> Arc<dyn StoresServerSessions> {
    static SESSIONS: OnceLock<Arc<ServerSessionMemoryCache>> = OnceLock::new();
    let sessions = SESSIONS.get_or_init(|| ServerSessionMemoryCache::new(SESSIONS_MAX));
    Arc::clone(sessions) as _
}
