//! Cipher lists in OpenSSL's language (`ssl_ciphers`), translated.
//!
//! The language: elements separated by colons, commas or spaces; keywords joined by `+` must all hold; `!` excludes for
//! good, `-` for now, `+` in front moves to the end. It speaks of TLS 1.2 alone: the suites of TLS 1.3 are always on, as
//! in OpenSSL. Only suites with forward secrecy and authenticated encryption exist here; whoever asks for others by
//! name is told.

use crate::Refusal;
use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedCipherSuite};

/// A suite of TLS 1.2: OpenSSL's name, and the keywords that it answers to.
struct Known {
    suite: CipherSuite,
    name: &'static str,
    keywords: &'static [&'static str],
}

/// In the order of preference. A hash is taken for the one that the name ends in: in OpenSSL `SHA256` means suites in
/// CBC mode with that hash, and none of these is left to serve.
const KNOWN: &[Known] = &[
    Known {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        keywords: &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        keywords: &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        keywords: &["ECDSA", "aECDSA", "CHACHA20", "SHA256"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        keywords: &["aRSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        keywords: &["aRSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        keywords: &["aRSA", "CHACHA20", "SHA256"],
    },
];

/// What all of them are.
const COMMON: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "FIPS", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH", "AEAD"];

/// OpenSSL's name of a suite, as `$ssl_cipher` shows it; of TLS 1.3 the standard's.
pub(crate) fn name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        _ => KNOWN.iter().find(|known| known.suite == suite).map_or("", |known| known.name),
    }
}

/// The suites that a list names, in its order, and what it names in vain.
pub(crate) fn parse(list: &str) -> (Vec<CipherSuite>, Vec<Refusal>) {
    let mut chosen: Vec<&Known> = Vec::new();
    let mut excluded: Vec<CipherSuite> = Vec::new();
    let mut refused = Vec::new();
    for element in list.split([':', ',', ' ', '\t', '\n', ';']).filter(|element| !element.is_empty()) {
        let (operator, terms) = match element.as_bytes()[0] {
            operator @ (b'!' | b'-' | b'+' | b'@') => (operator, &element[1..]),
            _ => (b' ', element),
        };
        let matching = || KNOWN.iter().filter(|known| terms.split('+').all(|term| known.answers_to(term)));
        match operator {
            b'!' => excluded.extend(matching().map(|known| known.suite)),
            b'-' => chosen.retain(|known| !matching().any(|out| out.suite == known.suite)),
            b'+' => {
                let (last, first): (Vec<&Known>, Vec<&Known>) =
                    chosen.iter().partition(|known| matching().any(|moved| moved.suite == known.suite));
                chosen = [first, last].concat();
            }
            // `@STRENGTH`, `@SECLEVEL=2`: those here are all strong.
            b'@' => {}
            _ => {
                let before = chosen.len();
                for known in matching() {
                    if !chosen.iter().any(|other| other.suite == known.suite) {
                        chosen.push(known);
                    }
                }
                if chosen.len() == before && matching().next().is_none() && !terms.starts_with("TLS_") {
                    refused.push(Refusal { what: element.to_owned(), why: why(terms) });
                }
            }
        }
    }
    let suites = chosen.iter().map(|known| known.suite).filter(|suite| !excluded.contains(suite));
    (suites.collect(), refused)
}

/// Leaves `provider` the suites of TLS 1.3 and, in their order, those of TLS 1.2 in `suites`.
pub(crate) fn restrict(provider: &mut CryptoProvider, suites: &[CipherSuite]) {
    let all = std::mem::take(&mut provider.cipher_suites);
    let (tls13, tls12): (Vec<SupportedCipherSuite>, Vec<SupportedCipherSuite>) =
        all.into_iter().partition(|suite| suite.tls13().is_some());
    let kept =
        suites.iter().filter_map(|wanted| tls12.iter().find(|suite| suite.suite() == *wanted).copied());
    provider.cipher_suites = tls13.into_iter().chain(kept).collect();
}

impl Known {
    fn answers_to(&self, term: &str) -> bool {
        self.name == term || self.keywords.contains(&term) || COMMON.contains(&term)
    }
}

fn why(terms: &str) -> &'static str {
    const BROKEN: &[&str] = &["RC4", "3DES", "DES", "MD5", "NULL", "EXP", "IDEA", "SEED", "LOW", "MEDIUM"];
    let parts = || terms.split(['-', '+']);
    if parts().any(|part| BROKEN.contains(&part) || part == "aNULL" || part == "eNULL") {
        "broken or without encryption, and not spoken"
    } else if parts().any(|part| matches!(part, "DHE" | "EDH" | "kDHE" | "kEDH" | "ADH" | "DH")) {
        "Diffie-Hellman over finite fields is not spoken; ECDHE is"
    } else if parts().any(|part| matches!(part, "PSK" | "SRP" | "kPSK" | "DSS" | "aDSS")) {
        "this kind of authentication is not spoken"
    } else if terms.starts_with("ECDHE") {
        "a suite in CBC mode (padding oracles, RFC 9325 section 4.2) and not spoken"
    } else if parts().any(|part| matches!(part, "AES128" | "AES256" | "RSA" | "kRSA" | "CAMELLIA")) {
        "key exchange without forward secrecy (RFC 9325 section 4.1) and not spoken"
    } else {
        "no suite that is spoken"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_openssl_reads_them() {
        let apisix = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
                      ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
                      DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384";
        for (list, names, refused) in [
            ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", 0),
            (
                "AES128+SHA256 !aNULL !eNULL !LOW !3DES !MD5 !EXP !PSK !SRP !DSS !MEDIUM !RC4",
                "ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-GCM-SHA256",
                0,
            ),
            ("HIGH:!aRSA:!CHACHA20", "ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-AES128-GCM-SHA256", 0),
            ("aRSA:+AES256:-CHACHA20", "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384", 0),
            ("ECDHE-RSA-AES128-SHA:AES128-SHA:RC4-SHA:@STRENGTH:TLS_AES_128_GCM_SHA256", "", 3),
        ] {
            let (suites, refusals) = parse(list);
            let found: Vec<_> = suites.into_iter().map(name).collect();
            assert_eq!((found.join(" ").as_str(), refusals.len()), (names, refused), "{list}: {refusals:?}");
        }
        let (suites, refusals) = parse(apisix);
        assert_eq!((suites.len(), refusals.len()), (6, 2));
    }
}
