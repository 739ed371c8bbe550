//! What variables show of a certificate (RFC 5280 section 4.1), read from its DER.

/// The parts of a certificate that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'c> {
    /// The serial number's content octets.
    pub(crate) serial: &'c [u8],
    /// The issuer's name, without its header.
    pub(crate) issuer: &'c [u8],
    /// The subject's name, without its header.
    pub(crate) subject: &'c [u8],
}

impl<'c> Parts<'c> {
    /// `None` where the certificate is none.
    pub(crate) fn read(certificate: &'c [u8]) -> Option<Self> {
        let (_, body, _) = element(certificate)?;
        let (_, mut rest, _) = element(body)?;
        let (tag, _, after) = element(rest)?;
        // The version is optional: its absence means 1.
        if tag == 0xa0 {
            rest = after;
        }
        let (_, serial, rest) = element(rest)?;
        let (_, _, rest) = element(rest)?;
        let (_, issuer, rest) = element(rest)?;
        let (_, _, rest) = element(rest)?;
        let (_, subject, _) = element(rest)?;
        Some(Self { serial, issuer, subject })
    }
}

/// Returns whether a certificate is of X.509 version 1 (RFC 5280 section 4.1.2.1: without a version field, or with 0).
pub(crate) fn is_version_1(certificate: &[u8]) -> Option<bool> {
    let (_, body, _) = element(certificate)?;
    let (_, rest, _) = element(body)?;
    let (tag, version, _) = element(rest)?;
    Some(tag != 0xa0 || element(version)?.1 == [0])
}

/// Whether a certificate's issuer is its subject.
pub(crate) fn is_self_issued(certificate: &[u8]) -> bool {
    Parts::read(certificate).is_some_and(|parts| parts.issuer == parts.subject)
}

/// Octets as upper-case hexadecimal digits.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02X}")).collect()
}

/// A name as RFC 2253 writes it, last part first: `CN=a.com,O=Example,C=CN`. What can't be read is left out.
pub(crate) fn name(mut rest: &[u8]) -> String {
    let mut parts = Vec::new();
    while let Some((_, mut set, after)) = element(rest) {
        rest = after;
        let mut attributes = Vec::new();
        while let Some((_, attribute, others)) = element(set) {
            set = others;
            attributes.extend(self::attribute(attribute));
        }
        parts.push(attributes.join("+"));
    }
    parts.reverse();
    parts.join(",")
}

fn attribute(attribute: &[u8]) -> Option<String> {
    let (_, oid, rest) = element(attribute)?;
    let (tag, value, _) = element(rest)?;
    // BMPString: two octets a character.
    let text: Vec<u8> = if tag == 0x1e {
        let units = value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        char::decode_utf16(units).map(|c| c.unwrap_or('?')).collect::<String>().into_bytes()
    } else {
        value.to_vec()
    };
    Some(format!("{}={}", attribute_type(oid), escape(&text)))
}

fn attribute_type(oid: &[u8]) -> String {
    let short = match oid {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 4] => "SN",
        [0x55, 4, 5] => "serialNumber",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 9] => "street",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x55, 4, 12] => "title",
        [0x55, 4, 42] => "GN",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        _ => return dotted(oid),
    };
    short.to_owned()
}

/// An object identifier in digits.
fn dotted(oid: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for octet in oid {
        number = number.wrapping_shl(7) | u64::from(octet & 0x7f);
        if octet & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

/// RFC 2253 section 2.4; what is no ASCII is written in hexadecimal, as OpenSSL does.
fn escape(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, octet) in text.iter().enumerate() {
        match octet {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => out.extend(['\\', char::from(*octet)]),
            b'#' if at == 0 => out.push_str("\\#"),
            b' ' if at == 0 || at + 1 == text.len() => out.push_str("\\ "),
            0x20..=0x7e => out.push(char::from(*octet)),
            _ => out.push_str(&format!("\\{octet:02X}")),
        }
    }
    out
}

/// Tag, content and what follows; `None` where `input` does not begin with a whole element.
pub(crate) fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = input.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the DER element (X.690) with this tag at the start of `input`, and what follows it. `None` where there is
/// another element, or none that is whole.
#[must_use]
pub fn tagged(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(input)?;
    (found == tag).then_some((content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SerialNumber};

    #[test]
    fn names_are_written_as_openssl_does() {
        let mut params = CertificateParams::new(["a.com".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(vec![0x0a, 0xff]));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "cn");
        params.distinguished_name.push(DnType::OrganizationName, "A, B + \"C\"");
        params.distinguished_name.push(DnType::CustomDnType(vec![1, 2, 840, 1]), "x");
        params.distinguished_name.push(DnType::CommonName, " ü#");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let parts = Parts::read(certificate.der()).unwrap();
        assert_eq!(name(parts.subject), "CN=\\ \\C3\\BC#,1.2.840.1=x,O=A\\, B \\+ \\\"C\\\",C=cn");
        assert_eq!((hex(parts.serial).as_str(), is_self_issued(certificate.der())), ("0AFF", true));
    }

    #[test]
    fn what_is_no_certificate_is_none() {
        let certificate = rcgen::generate_simple_self_signed(["a.com".to_owned()]).unwrap().cert;
        let whole = certificate.der().as_ref();
        for end in 0..whole.len() {
            assert_eq!(Parts::read(&whole[..end]), None);
        }
        assert_eq!(name(b"\x31\xff"), "");
    }
}
