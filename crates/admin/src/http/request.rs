//! A request to the Admin API, off the wire.

use crate::http::origin::Sender;
use percent_encoding::percent_decode_str;
use std::net::IpAddr;

/// A request to the Admin API.
#[derive(Clone)]
pub struct AdminRequest {
    /// The method in capitals: `GET`.
    pub method: String,
    /// The path as sent, percent-encoded and without the query: `/apisix/admin/routes/1`.
    pub path: String,
    /// The query as sent, without the question mark; empty where there is none.
    pub query: String,
    /// The header fields by name, in any case; those of [`Self::HEADERS`] suffice. The authority of a target in absolute
    /// form is there as another `host`.
    pub headers: Vec<(String, String)>,
    /// The body, or as much of it as was read.
    pub body: Vec<u8>,
    /// The body's size in bytes as sent or announced: more than `body` holds where the reader stopped at
    /// `AdminSettings::body_limit`.
    pub body_size: u64,
    /// The client's address.
    pub peer: IpAddr,
    /// Whether it came to a port of the data plane, which serves other sites' pages as well.
    pub on_data_port: bool,
}

impl AdminRequest {
    /// The header fields that are ever looked at.
    pub const HEADERS: [&'static str; 11] = [
        "x-api-key",
        "x_api_key",
        "cookie",
        "origin",
        "host",
        "referer",
        "sec-fetch-site",
        "content-type",
        "strict",
        "accept",
        "x-digest",
    ];

    /// Who sent it, as far as web pages are concerned.
    pub(crate) fn sender(&self) -> Sender<'_> {
        Sender::new(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }

    /// The first value of a header field.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// A cookie's value.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let fields = self.headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case("cookie"));
        let pairs =
            fields.flat_map(|(_, value)| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(cookie, _)| cookie.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The path's segments, decoded. Like nginx it takes several slashes for one and decodes before it splits.
    pub(crate) fn segments(&self) -> Vec<String> {
        let path = percent_decode_str(&self.path).decode_utf8_lossy();
        path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
    }
}

impl std::fmt::Debug for AdminRequest {
    /// Without what may hold a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminRequest")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("body_size", &self.body_size)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, headers: &[(&str, &str)]) -> AdminRequest {
        AdminRequest {
            method: "GET".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: Vec::new(),
            body_size: 0,
            peer: IpAddr::from([127, 0, 0, 1]),
            on_data_port: false,
        }
    }

    #[test]
    fn paths_are_split_as_nginx_shows_them() {
        for (path, expected) in [
            ("/apisix/admin/routes/1", &["apisix", "admin", "routes", "1"][..]),
            ("/apisix//admin/routes/", &["apisix", "admin", "routes"]),
            ("/a%2Fb/%E2%82%AC", &["a", "b", "€"]),
            ("", &[]),
        ] {
            assert_eq!(request(path, &[]).segments(), expected, "{path}");
        }
    }

    #[test]
    fn headers_and_cookies_are_found() {
        let request =
            request("/", &[("X-Api-Key", "k"), ("Cookie", "a=1; X_API_KEY=c=d"), ("cookie", "b=2")]);
        assert_eq!(request.header("x-api-key"), Some("k"));
        assert_eq!(request.header("origin"), None);
        assert_eq!(request.cookie("x_api_key"), Some("c=d"));
        assert_eq!(request.cookie("b"), Some("2"));
        assert_eq!(request.cookie("none"), None);
        assert!(!format!("{request:?}").contains("c=d"));
    }
}
