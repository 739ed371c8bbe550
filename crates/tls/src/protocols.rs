//! Versions of TLS, named as in nginx (`ssl_protocols`).

use rustls::SupportedProtocolVersion;

/// The versions that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// TLS 1.2.
    pub tls12: bool,
    /// TLS 1.3.
    pub tls13: bool,
}

/// Something that was asked for and is not spoken, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What was asked for, as written.
    pub what: String,
    /// Why it is not spoken.
    pub why: &'static str,
}

impl Protocols {
    /// Those named; the others named are given back as refused.
    pub fn parse<'n>(names: impl IntoIterator<Item = &'n str>) -> (Self, Vec<Refusal>) {
        let mut protocols = Self { tls12: false, tls13: false };
        let mut refused = Vec::new();
        for name in names {
            match name {
                "TLSv1.2" => protocols.tls12 = true,
                "TLSv1.3" => protocols.tls13 = true,
                _ => refused.push(Refusal { what: name.to_owned(), why: why(name) }),
            }
        }
        (protocols, refused)
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(self) -> bool {
        !self.tls12 && !self.tls13
    }

    pub(crate) fn versions(self) -> Vec<&'static SupportedProtocolVersion> {
        let mut versions = Vec::new();
        if self.tls13 {
            versions.push(&rustls::version::TLS13);
        }
        if self.tls12 {
            versions.push(&rustls::version::TLS12);
        }
        versions
    }
}

impl Default for Protocols {
    /// Both, as in APISIX.
    fn default() -> Self {
        Self { tls12: true, tls13: true }
    }
}

fn why(name: &str) -> &'static str {
    match name {
        "TLSv1" | "TLSv1.0" | "TLSv1.1" => "deprecated as insecure (RFC 8996) and not spoken",
        "SSLv2" | "SSLv3" => "broken and not spoken",
        _ => "no version of TLS; known are TLSv1.2 and TLSv1.3",
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_refused_by_name() {
        for (written, tls12, tls13, refused) in [
            ("TLSv1.2 TLSv1.3", true, true, 0),
            ("TLSv1 TLSv1.1 TLSv1.2", true, false, 2),
            ("TLSv1.1", false, false, 1),
            ("SSLv3 TLSv1.3 what", false, true, 2),
            ("", false, false, 0),
        ] {
            let (protocols, refusals) = Protocols::parse(written.split_whitespace());
            assert_eq!((protocols, refusals.len()), (Protocols { tls12, tls13 }, refused), "{written}");
        }
    }
}
