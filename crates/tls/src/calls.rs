//! What the control plane's own HTTP calls speak TLS with: to managers of secrets, to collectors of logs.

use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The settings for an agent. With `verify` a server's certificate has to be one that this system trusts: its certificates
/// can be added to by the operator; where it has none, those that come with the client count.
#[must_use]
pub fn for_calls(verify: bool) -> TlsConfig {
    let tls = TlsConfig::builder().disable_verification(!verify);
    if !verify {
        return tls.build();
    }
    let found = rustls_native_certs::load_native_certs().certs;
    let system: Vec<_> = found.iter().map(|cert| Certificate::from_der(cert).to_owned()).collect();
    if system.is_empty() { tls.build() } else { tls.root_certs(RootCerts::new_with_certs(&system)).build() }
}
