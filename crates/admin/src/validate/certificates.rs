//! Whether certificates and keys are such, in ssls and in the `tls` of upstreams. Unlike in APISIX a key must also be
//! the certificate's: what can't be used is refused rather than stored.

use crate::validate::mistakes::Mistakes;
use document::{Diagnostic, codes};
use model::Kind;
use model::schema::refers_to_secret;
use serde_json::{Map, Value};
use tls::{Identity, IdentityError, check_chain};

/// Checks the certificates and keys of a resource, in APISIX's order.
pub(crate) fn check(kind: Kind, fields: &Map<String, Value>, found: &mut Mistakes) {
    match kind {
        Kind::Ssl => check_ssl(fields, found),
        Kind::Upstream => check_client(fields, "", found),
        _ => {
            if let Some(upstream) = fields.get("upstream").and_then(Value::as_object) {
                check_client(upstream, "/upstream", found);
            }
        }
    }
}

fn check_ssl(ssl: &Map<String, Value>, found: &mut Mistakes) {
    let text = |name: &str| ssl.get(name).and_then(Value::as_str);
    if let (Some(cert), Some(key)) = (text("cert"), text("key")) {
        check_pair((cert, "/cert"), Some((key, "/key")), "", found);
    }
    // A client's certificate has but the one.
    if text("type") == Some("client") {
        return;
    }
    let texts = |name: &str| ssl.get(name).and_then(Value::as_array).into_iter().flatten().map(Value::as_str);
    for (i, pair) in texts("certs").zip(texts("keys")).enumerate() {
        let (Some(cert), Some(key)) = pair else { continue };
        let words = format!("failed to handle cert-key pair[{}]: ", i + 1);
        check_pair((cert, &format!("/certs/{i}")), Some((key, &format!("/keys/{i}"))), &words, found);
    }
    if let Some(ca) = ssl.get("client").and_then(|client| client.get("ca")).and_then(Value::as_str) {
        check_pair((ca, "/client/ca"), None, "failed to validate client_cert: ", found);
        if tls::has_version_1(ca) {
            found.warn(version_1("/client/ca"));
        }
    }
}

/// The warning about a certificate authority of X.509 version 1.
pub(crate) fn version_1(path: &str) -> Diagnostic {
    let message = "this certificate authority is of X.509 version 1: client certificates that are made in the same way, \
                   without extensions, are refused in the handshake";
    Diagnostic::warning(codes::OLD_CERTIFICATE, message).path(path).hint(
        "issue client certificates as version 3 (openssl x509 -req -extfile), and the authority with basicConstraints = \
         CA:TRUE",
    )
}

/// The certificate that an upstream is shown.
fn check_client(upstream: &Map<String, Value>, place: &str, found: &mut Mistakes) {
    let Some(tls) = upstream.get("tls").and_then(Value::as_object) else { return };
    let text = |name: &str| tls.get(name).and_then(Value::as_str);
    if let (Some(cert), Some(key)) = (text("client_cert"), text("client_key")) {
        let (cert_at, key_at) = (format!("{place}/tls/client_cert"), format!("{place}/tls/client_key"));
        check_pair((cert, &cert_at), Some((key, &key_at)), "", found);
    }
}

/// A pair of which a part is a reference to a secret is taken as it is: what it refers to may not be there yet.
fn check_pair((cert, cert_at): (&str, &str), key: Option<(&str, &str)>, words: &str, found: &mut Mistakes) {
    if refers_to_secret(cert) || key.is_some_and(|(key, _)| refers_to_secret(key)) {
        return;
    }
    let result = match key {
        Some((key, _)) => Identity::from_pem(cert, key).map(drop),
        None => check_chain(cert),
    };
    if let Err(error) = result {
        let path = match (&error, key) {
            (IdentityError::Key(_) | IdentityError::Sealed | IdentityError::Mismatch, Some((_, key_at))) => {
                key_at
            }
            _ => cert_at,
        };
        found.push(path, format!("{words}{error}"));
    }
}
