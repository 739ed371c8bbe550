//! Keys in PEM (RFC 7468), as far as `ring` has to be told about them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tls::der::tagged;

/// A private key's DER.
pub(super) enum PrivateKey {
    /// RFC 5958.
    Pkcs8(Vec<u8>),
    /// `RSAPrivateKey` of RFC 8017.
    Pkcs1(Vec<u8>),
    /// `ECPrivateKey` of RFC 5915, taken apart.
    Sec1 { scalar: Vec<u8>, point: Vec<u8> },
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const CONTEXT_0: u8 = 0xA0;
const CONTEXT_1: u8 = 0xA1;

/// The OIDs' contents.
const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
const P384: &[u8] = b"\x2b\x81\x04\x00\x22";
const ED25519: &[u8] = b"\x2b\x65\x70";

/// The label and the content of the first block.
fn block(pem: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let text: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    Some((label, STANDARD.decode(text).ok()?))
}

/// The key as `ring` verifies with it: the content of `subjectPublicKey`.
pub(super) fn public_key(pem: &str) -> Option<Vec<u8>> {
    let (label, der) = block(pem)?;
    if label == "RSA PUBLIC KEY" {
        return Some(der);
    }
    let (_, bits) = algorithm_and_key(public_key_info(label, &der)?)?;
    Some(bits.to_vec())
}

/// The content of the `SubjectPublicKeyInfo`.
fn public_key_info<'d>(label: &str, der: &'d [u8]) -> Option<&'d [u8]> {
    if !label.ends_with("CERTIFICATE") {
        return tagged(der, SEQUENCE).filter(|_| label == "PUBLIC KEY").map(|(content, _)| content);
    }
    // RFC 5280 section 4.1: version, serial number, signature, issuer, validity and subject are before it.
    let (certificate, _) = tagged(der, SEQUENCE)?;
    let (mut rest, _) = tagged(certificate, SEQUENCE)?;
    if let Some((_, after)) = tagged(rest, CONTEXT_0) {
        rest = after;
    }
    (_, rest) = tagged(rest, INTEGER)?;
    for _ in 0..4 {
        (_, rest) = tagged(rest, SEQUENCE)?;
    }
    tagged(rest, SEQUENCE).map(|(content, _)| content)
}

fn algorithm_and_key(info: &[u8]) -> Option<(&[u8], &[u8])> {
    let (algorithm, rest) = tagged(info, SEQUENCE)?;
    let (bits, _) = tagged(rest, BIT_STRING)?;
    // The first byte says how many bits of the last one don't count: none in a key.
    Some((algorithm, bits.strip_prefix(&[0])?))
}

/// The private key of `pem`.
pub(super) fn private_key(pem: &str) -> Option<PrivateKey> {
    let (label, der) = block(pem)?;
    match label {
        "PRIVATE KEY" => Some(PrivateKey::Pkcs8(der)),
        "RSA PRIVATE KEY" => Some(PrivateKey::Pkcs1(der)),
        "EC PRIVATE KEY" => {
            let (content, _) = tagged(&der, SEQUENCE)?;
            let (_, rest) = tagged(content, INTEGER)?;
            let (scalar, rest) = tagged(rest, OCTET_STRING)?;
            let rest = tagged(rest, CONTEXT_0).map_or(rest, |(_, rest)| rest);
            let (public, _) = tagged(rest, CONTEXT_1)?;
            let (bits, _) = tagged(public, BIT_STRING)?;
            Some(PrivateKey::Sec1 { scalar: scalar.to_vec(), point: bits.strip_prefix(&[0])?.to_vec() })
        }
        _ => None,
    }
}

/// What key the first block holds: `rsa`, `ec256`, `ec384` or `ed25519`.
pub(super) fn kind(pem: &str) -> Option<&'static str> {
    let (label, der) = block(pem)?;
    let algorithm = match label {
        "RSA PUBLIC KEY" | "RSA PRIVATE KEY" => return Some("rsa"),
        "EC PRIVATE KEY" => {
            return private_key(pem).map(|key| match key {
                PrivateKey::Sec1 { scalar, .. } if scalar.len() > 32 => "ec384",
                _ => "ec256",
            });
        }
        "PRIVATE KEY" => {
            let (content, _) = tagged(&der, SEQUENCE)?;
            let (_, rest) = tagged(content, INTEGER)?;
            tagged(rest, SEQUENCE)?.0
        }
        _ => algorithm_and_key(public_key_info(label, &der)?)?.0,
    };
    let (oid, parameters) = tagged(algorithm, OID)?;
    match oid {
        RSA => Some("rsa"),
        ED25519 => Some("ed25519"),
        EC => Some(if tagged(parameters, OID).is_some_and(|(curve, _)| curve == P384) {
            "ec384"
        } else {
            "ec256"
        }),
        _ => None,
    }
}
