//! Entries to private parsers, for fuzz targets alone.

use crate::{Refusal, ciphers, der};

/// What is shown of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// The serial number.
    pub serial: String,
    /// The issuer's name.
    pub issuer: String,
    /// The subject's name.
    pub subject: String,
}

/// Tag, content and rest of the DER element at the start of `input`.
#[must_use]
pub fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    der::element(input)
}

/// What is shown of `certificate`; `None` where it is none.
#[must_use]
pub fn certificate(certificate: &[u8]) -> Option<Shown> {
    let parts = der::Parts::read(certificate)?;
    Some(Shown {
        serial: der::hex(parts.serial),
        issuer: der::name(parts.issuer),
        subject: der::name(parts.subject),
    })
}

/// The names of the suites that an OpenSSL cipher list selects, and what it names in vain.
#[must_use]
pub fn cipher_list(list: &str) -> (Vec<&'static str>, Vec<Refusal>) {
    let (suites, refused) = ciphers::parse(list);
    (suites.into_iter().map(ciphers::name).collect(), refused)
}
