//! The cryptography: ring by default, aws-lc-rs where the feature asks for it.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::ProducesTickets;
use rustls::sign::SigningKey;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "aws-lc-rs")]
use rustls::crypto::aws_lc_rs as chosen;
#[cfg(not(feature = "aws-lc-rs"))]
use rustls::crypto::ring as chosen;

/// Everything the provider can do.
pub(crate) fn base() -> CryptoProvider {
    chosen::default_provider()
}

/// The provider as it comes, shared.
pub(crate) fn shared() -> &'static Arc<CryptoProvider> {
    static SHARED: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    SHARED.get_or_init(|| Arc::new(base()))
}

/// A private key, ready to sign with.
pub(crate) fn signing_key(key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
    shared().key_provider.load_private_key(key)
}

/// What seals session tickets, one for the process: its keys never leave memory, each is used for six hours and
/// accepted for six more, so tickets survive a reload and give nothing away after half a day.
pub(crate) fn ticketer() -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    static TICKETER: OnceLock<Arc<dyn ProducesTickets>> = OnceLock::new();
    if let Some(ticketer) = TICKETER.get() {
        return Ok(Arc::clone(ticketer));
    }
    let ticketer = chosen::Ticketer::new()?;
    Ok(Arc::clone(TICKETER.get_or_init(|| ticketer)))
}
