//! Cookies that a plugin sets (RFC 6265 section 4.1).

use serde::Deserialize;

/// Whether browsers send a cookie with requests that other sites made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum SameSite {
    Strict,
    Lax,
    None,
    /// No attribute: as the browser has it.
    #[serde(rename = "off", alias = "Default")]
    Off,
}

/// The attributes of a cookie besides its lifetime.
#[derive(Debug, Clone)]
pub(crate) struct CookieAttributes {
    pub(crate) path: String,
    pub(crate) domain: Option<String>,
    pub(crate) secure: bool,
    pub(crate) http_only: bool,
    pub(crate) same_site: SameSite,
}

impl Default for CookieAttributes {
    fn default() -> Self {
        Self { path: "/".to_owned(), domain: None, secure: false, http_only: true, same_site: SameSite::Lax }
    }
}

/// The value of `Set-Cookie`. `max_age_s` is `None` for a cookie that ends with the browser's session.
pub(crate) fn set_cookie(
    name: &str,
    value: &str,
    attributes: &CookieAttributes,
    max_age_s: Option<u64>,
) -> String {
    let mut cookie = format!("{name}={value}; Path={}", attributes.path);
    if let Some(domain) = &attributes.domain {
        cookie.push_str("; Domain=");
        cookie.push_str(domain);
    }
    if let Some(max_age_s) = max_age_s {
        cookie.push_str("; Max-Age=");
        cookie.push_str(&max_age_s.to_string());
    }
    if attributes.http_only {
        cookie.push_str("; HttpOnly");
    }
    if attributes.secure {
        cookie.push_str("; Secure");
    }
    cookie.push_str(match attributes.same_site {
        SameSite::Strict => "; SameSite=Strict",
        SameSite::Lax => "; SameSite=Lax",
        SameSite::None => "; SameSite=None",
        SameSite::Off => "",
    });
    cookie
}

/// The value of `Set-Cookie` that removes a cookie.
pub(crate) fn cleared(name: &str, attributes: &CookieAttributes) -> String {
    set_cookie(name, "", attributes, Some(0))
}
