//! What the control plane's own calls speak TLS with: to managers of secrets, to service registries, to collectors of
//! logs.
//!
//! As with APISIX's Lua plugins, `apisix.ssl.ssl_trusted_certificate` says whose certificates their servers may have.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{ClientConfig, Error};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::identity::{Identity, certificates};
use crate::{IdentityError, Trust, Upstreams, Verify};

/// The process's trust for calls; `None` until it is configured, which means the system's authorities.
static TRUST: RwLock<Option<Trust>> = RwLock::new(None);

/// Sets whom servers of calls may be certified by. Clients that were made before keep what they have.
pub fn trust_for_calls(trust: Trust) {
    *TRUST.write().unwrap_or_else(PoisonError::into_inner) = Some(trust);
}

fn trust() -> Trust {
    let known = TRUST.read().unwrap_or_else(PoisonError::into_inner).clone();
    known.unwrap_or(Trust { pem: Vec::new(), system: true })
}

/// Returns the settings for an HTTP agent. With `verify` a server's certificate has to be one that
/// `ssl_trusted_certificate` names, or that this system trusts; where neither has any, the authorities that come with
/// the client count.
#[must_use]
pub fn for_calls(verify: bool) -> TlsConfig {
    let tls = TlsConfig::builder().disable_verification(!verify);
    if !verify {
        return tls.build();
    }
    let Trust { pem, system } = trust();
    let mut found: Vec<_> = pem.iter().flat_map(|pem| certificates(pem).unwrap_or_default()).collect();
    if system {
        found.extend(rustls_native_certs::load_native_certs().certs);
    }
    let roots: Vec<_> = found.iter().map(|cert| Certificate::from_der(cert).to_owned()).collect();
    if roots.is_empty() { tls.build() } else { tls.root_certs(RootCerts::new_with_certs(&roots)).build() }
}

/// A client's certificate chain and its private key, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct CallIdentity<'p> {
    /// The chain, own certificate first.
    pub chain: &'p str,
    /// The key of the first certificate.
    pub key: &'p str,
}

/// Returns the settings for an HTTP agent of a command. `authorities`, in PEM, are trusted in place of those of
/// [`for_calls`] where there are any; `identity` is shown to servers that ask for a certificate.
///
/// # Errors
/// A text that holds no certificate, and a key that can't be read or belongs to another certificate.
pub fn for_calls_with(
    authorities: Option<&str>,
    identity: Option<CallIdentity<'_>>,
) -> Result<TlsConfig, IdentityError> {
    let mut tls = TlsConfig::builder();
    tls = match authorities {
        None => tls.root_certs(for_calls(true).root_certs().clone()),
        Some(pem) => {
            let roots: Vec<_> =
                certificates(pem)?.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
            tls.root_certs(RootCerts::new_with_certs(&roots))
        }
    };
    if let Some(CallIdentity { chain, key }) = identity {
        Identity::from_pem(chain, key)?;
        let chain: Vec<_> =
            certificates(chain)?.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let key =
            PrivateKey::from_pem(key.as_bytes()).map_err(|error| IdentityError::Key(error.to_string()))?;
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(tls.build())
}

/// Returns the settings for a TLS connection that carries no HTTP; with `verify` as for [`for_calls`].
///
/// # Errors
/// Where nothing is trusted and the server is to be verified.
pub fn for_streams(verify: bool) -> Result<Arc<ClientConfig>, Error> {
    let upstreams = Upstreams::new(trust()).map_err(|error| Error::General(error.to_string()))?;
    upstreams.config(if verify { Verify::Name } else { Verify::Nothing }, None, &[])
}
