//! What the control plane's own calls speak TLS with: to managers of secrets, to service registries, to collectors of
//! logs.
//!
//! As with APISIX's Lua plugins, `apisix.ssl.ssl_trusted_certificate` says whose certificates their servers may have.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{ClientConfig, Error};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::identity::certificates;
use crate::{Trust, Upstreams, Verify};

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

/// Returns the settings for a TLS connection that carries no HTTP; with `verify` as for [`for_calls`].
///
/// # Errors
/// Where nothing is trusted and the server is to be verified.
pub fn for_streams(verify: bool) -> Result<Arc<ClientConfig>, Error> {
    let upstreams = Upstreams::new(trust()).map_err(|error| Error::General(error.to_string()))?;
    upstreams.config(if verify { Verify::Name } else { Verify::Nothing }, None, &[])
}
