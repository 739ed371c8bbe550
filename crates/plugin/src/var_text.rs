//! The values of variables as text.

use model::var::SslVar;
use std::borrow::Cow;
use std::time::Duration;
use wire::http1::push_decimal;

/// A variable of the encrypted connection; one about a certificate is absent where the client has shown none.
pub(crate) fn ssl_var(var: SslVar, peer: &tls::Peer) -> Option<Cow<'_, [u8]>> {
    let owned = |text: Option<String>| text.map(|text| Cow::Owned(text.into_bytes()));
    match var {
        SslVar::ServerName => text(&peer.server_name),
        SslVar::Protocol => text(peer.protocol),
        SslVar::Cipher => text(peer.cipher),
        SslVar::SessionReused => text(if peer.resumed { "r" } else { "." }),
        SslVar::ClientVerify => Some(match peer.verdict.text() {
            Cow::Borrowed(verdict) => Cow::Borrowed(verdict.as_bytes()),
            Cow::Owned(verdict) => Cow::Owned(verdict.into_bytes()),
        }),
        SslVar::ClientSubject => owned(peer.subject()),
        SslVar::ClientIssuer => owned(peer.issuer()),
        SslVar::ClientSerial => owned(peer.serial()),
        SslVar::ClientFingerprint => owned(peer.fingerprint()),
        SslVar::ClientRawCert => owned(peer.pem()),
        SslVar::ClientEscapedCert => owned(peer.pem().map(|pem| percent(&pem))),
    }
}

/// Percent-encodes all but the unreserved characters (RFC 3986 section 2.3).
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(crate) fn text(value: &str) -> Option<Cow<'_, [u8]>> {
    present(value.as_bytes())
}

/// A variable that is empty counts as absent, as in nginx's `vars` of APISIX.
pub(crate) fn present(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    (!value.is_empty()).then_some(Cow::Borrowed(value))
}

pub(crate) fn number(value: u64) -> Cow<'static, [u8]> {
    let mut digits = Vec::with_capacity(20);
    push_decimal(&mut digits, value);
    Cow::Owned(digits)
}

/// Seconds with milliseconds: `0.005`.
pub(crate) fn seconds(value: Duration) -> Cow<'static, [u8]> {
    Cow::Owned(format!("{}.{:03}", value.as_secs(), value.subsec_millis()).into_bytes())
}
