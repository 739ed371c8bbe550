//! TLS of one listener with one certificate: the Admin API's (`deployment.admin.https_admin`).

use crate::client_auth::{ClientAuth, Verifier};
use crate::identity::{Identity, IdentityError, certificates};
use crate::{Server, ServerOptions, Validity};
use model::resource::ClientVerification;
use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use std::sync::Arc;

/// Intermediate certificates between a client's certificate and the authority: nginx's `ssl_verify_depth`, which APISIX
/// leaves at its default.
const VERIFY_DEPTH: u32 = 1;

/// The texts that a listener's TLS is made of, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct ListenerPem<'p> {
    /// The certificate chain, own certificate first.
    pub chain: &'p str,
    /// The private key of the first certificate.
    pub key: &'p str,
    /// The authorities that certify clients; `None`: clients need no certificate.
    pub client_ca: Option<&'p str>,
}

/// Why a listener's TLS can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// The chain can't be used.
    #[error("{0}")]
    Chain(String),
    /// The key can't be used, or belongs to another certificate.
    #[error("{0}")]
    Key(String),
    /// The authorities can't be used.
    #[error("{0}")]
    ClientCa(String),
    /// The shared settings leave no version of TLS.
    #[error("{0}")]
    Options(String),
}

/// Returns the configuration of handshakes with the clients of one listener. `options` are those of `apisix.ssl`, whose
/// ALPN names count too; `now_s` is the time in seconds since 1970.
///
/// # Errors
/// A text that can't be read, a key of another certificate, and a certificate that is not valid at `now_s`.
pub fn for_listener(
    options: &ServerOptions,
    pem: ListenerPem<'_>,
    now_s: i64,
) -> Result<Arc<ServerConfig>, ListenerError> {
    let identity = Identity::from_pem(pem.chain, pem.key).map_err(|error| match error {
        IdentityError::Certificate(_) => ListenerError::Chain(error.to_string()),
        _ => ListenerError::Key(error.to_string()),
    })?;
    let validity = Validity::of_chain(pem.chain);
    validity.map_or(Ok(()), |validity| valid_at(validity, now_s)).map_err(ListenerError::Chain)?;
    let client = match pem.client_ca {
        None => None,
        Some(ca) => Some(client_auth(ca, now_s).map_err(ListenerError::ClientCa)?),
    };
    let unusable = |error: rustls::Error| ListenerError::Options(error.to_string());
    let (server, _) = Server::new(options).map_err(unusable)?;
    let verifier: Option<Arc<dyn ClientCertVerifier>> = match client {
        Some(client) => Some(Arc::new(Verifier(Arc::new(client)))),
        None => None,
    };
    let resolver = Arc::new(SingleCertAndKey::from(Arc::clone(identity.certified())));
    server.handshakes(None, verifier, resolver).map_err(unusable)
}

fn client_auth(ca: &str, now_s: i64) -> Result<ClientAuth, String> {
    let written =
        ClientVerification { ca: ca.to_owned(), depth: VERIFY_DEPTH, skip_mtls_uri_regex: Vec::new() };
    let compiled = ClientAuth::compile(&written);
    let client = compiled.map_err(|errors| errors.first().map_or_else(String::new, |e| e.message.clone()))?;
    // Of several authorities, as while one replaces another, one has to be valid.
    let authorities = certificates(ca).unwrap_or_default();
    let checked: Vec<_> = authorities
        .iter()
        .filter_map(|authority| Validity::read(authority))
        .map(|validity| valid_at(validity, now_s))
        .collect();
    match checked.iter().find(|checked| checked.is_ok()).or(checked.first()) {
        Some(Err(reason)) => Err(reason.clone()),
        _ => Ok(client),
    }
}

/// Says of what is not valid now since when, or from when on.
fn valid_at(validity: Validity, now_s: i64) -> Result<(), String> {
    let days = |seconds: i64| seconds.div_euclid(86_400);
    if now_s > validity.not_after {
        return Err(format!("certificate has expired {} days ago", days(now_s - validity.not_after)));
    }
    if now_s < validity.not_before {
        return Err(format!(
            "certificate is not yet valid: it becomes valid in {} days",
            days(validity.not_before - now_s)
        ));
    }
    Ok(())
}

/// Returns why a handshake failed, in the words that OpenSSL has for it and operators search for.
#[must_use]
pub fn handshake_failure(error: &rustls::Error) -> String {
    use rustls::CertificateError as C;
    use rustls::Error as E;
    match error {
        E::NoCertificatesPresented => "no required SSL certificate was sent".to_owned(),
        E::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => "certificate has expired".to_owned(),
        E::InvalidCertificate(C::NotValidYet | C::NotValidYetContext { .. }) => {
            "certificate is not yet valid".to_owned()
        }
        E::InvalidCertificate(C::BadSignature) => "certificate signature failure".to_owned(),
        E::InvalidCertificate(C::ApplicationVerificationFailure) => "certificate rejected".to_owned(),
        E::InvalidCertificate(C::UnknownIssuer) => "unable to get local issuer certificate".to_owned(),
        E::InvalidCertificate(C::Other(reason)) => reason.to_string(),
        E::AlertReceived(alert) => format!("the peer sent the alert {alert:?}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// A certificate that is valid from the first of January of one year to that of another, and its key.
    fn pair(from: i32, to: i32) -> (String, String) {
        let mut params = CertificateParams::new(["a.com".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// The first of January 2026.
    const NOW_S: i64 = 1_767_225_600;

    #[test]
    fn what_is_wrong_is_told_of_the_text_that_it_is_in() {
        let (good, past, future) = (pair(2020, 2090), pair(2001, 2002), pair(2080, 2090));
        let both = format!("{}{}", past.0, good.0);
        let options = ServerOptions::default();
        let check = |chain: &str, key: &str, client_ca: Option<&str>| {
            for_listener(&options, ListenerPem { chain, key, client_ca }, NOW_S).map(drop)
        };
        let text = |result: Result<(), ListenerError>| match result {
            Ok(()) => "fine".to_owned(),
            Err(ListenerError::Chain(text)) => format!("chain: {text}"),
            Err(ListenerError::Key(text)) => format!("key: {text}"),
            Err(ListenerError::ClientCa(text)) => format!("ca: {text}"),
            Err(ListenerError::Options(text)) => format!("options: {text}"),
        };
        for (chain, key, ca, expected) in [
            (&good.0, &good.1, None, "fine"),
            (&good.0, &good.1, Some(&good.0), "fine"),
            (&good.0, &good.1, Some(&both), "fine"),
            (&past.0, &past.1, None, "chain: certificate has expired"),
            (&future.0, &future.1, None, "chain: certificate is not yet valid"),
            (&good.0, &past.1, None, "key: failed to match key"),
            (&good.1, &good.1, None, "chain: failed to parse cert"),
            (&good.0, &good.0, None, "key: failed to parse key"),
            (&good.0, &good.1, Some(&past.0), "ca: certificate has expired"),
            (&good.0, &good.1, Some(&good.1), "ca: failed to validate client_cert"),
        ] {
            let said = text(check(chain, key, ca.map(String::as_str)));
            assert!(said.starts_with(expected), "{said}, not {expected}");
        }
    }

    #[test]
    fn failed_handshakes_have_openssls_words() {
        use rustls::{AlertDescription, CertificateError, Error};
        for (error, words) in [
            (Error::NoCertificatesPresented, "no required SSL certificate was sent"),
            (CertificateError::Expired.into(), "certificate has expired"),
            (CertificateError::UnknownIssuer.into(), "unable to get local issuer certificate"),
            (CertificateError::BadSignature.into(), "certificate signature failure"),
            (Error::AlertReceived(AlertDescription::UnknownCA), "the peer sent the alert UnknownCA"),
        ] {
            assert_eq!(handshake_failure(&error), words);
        }
    }
}
