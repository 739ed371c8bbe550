//! Variables of a request (`$remote_addr`, `$arg_id`, `$http_user_agent` ...), named as in nginx and APISIX.
//!
//! A name is parsed once, when a configuration is compiled; per request only [`VarSource::var`] runs.

use std::borrow::Cow;

/// A variable, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Var {
    /// `request_method`, `method`
    RequestMethod,
    /// `uri`: the normalised path
    Uri,
    /// `request_uri`: path and query as the client sent them
    RequestUri,
    /// `args`, `query_string`
    QueryString,
    /// `is_args`: `?` or nothing
    IsArgs,
    /// `host`: from the `Host` header, lower case, without the port
    Host,
    /// `hostname`: this machine's
    Hostname,
    /// `scheme`: `http` or `https`
    Scheme,
    /// `server_protocol`: `HTTP/1.1`
    ServerProtocol,
    /// `request`, the request line
    RequestLine,
    /// `request_length`: bytes of head and body received
    RequestLength,
    /// `request_time`: seconds with milliseconds
    RequestTime,
    /// `request_id`, `apisix_request_id`
    RequestId,
    /// `remote_addr`
    RemoteAddr,
    /// `remote_port`
    RemotePort,
    /// `remote_user`
    RemoteUser,
    /// `server_addr`
    ServerAddr,
    /// `server_port`
    ServerPort,
    /// `server_name`
    ServerName,
    /// `status`
    Status,
    /// `bytes_sent`
    BytesSent,
    /// `body_bytes_sent`
    BodyBytesSent,
    /// `upstream_addr`, `balancer_ip:balancer_port`
    UpstreamAddr,
    /// `balancer_ip`
    BalancerIp,
    /// `balancer_port`
    BalancerPort,
    /// `upstream_status`
    UpstreamStatus,
    /// `upstream_response_time`: seconds with milliseconds
    UpstreamResponseTime,
    /// `upstream_scheme`
    UpstreamScheme,
    /// `upstream_host`
    UpstreamHost,
    /// `upstream_uri`
    UpstreamUri,
    /// `route_id`
    RouteId,
    /// `route_name`
    RouteName,
    /// `service_id`
    ServiceId,
    /// `service_name`
    ServiceName,
    /// `consumer_name`
    ConsumerName,
    /// `consumer_group_id`
    ConsumerGroupId,
    /// `matched_uri`
    MatchedUri,
    /// `matched_host`
    MatchedHost,
    /// `time_local`
    TimeLocal,
    /// `time_iso8601`
    TimeIso8601,
    /// `msec`
    Msec,
    /// `pid`
    Pid,
    /// `connection`: serial number of the client's connection
    Connection,
    /// `connection_requests`: number of the request on its connection
    ConnectionRequests,
    /// `arg_NAME`: a query argument
    Arg(String),
    /// `http_NAME`: a request header; held in lower case with dashes
    Http(String),
    /// `sent_http_NAME`: a response header; held in lower case with dashes
    SentHttp(String),
    /// `cookie_NAME`
    Cookie(String),
    /// `post_arg_NAME`: a form field of the body
    PostArg(String),
    /// `https`: `on`, or absent
    Https,
    /// `ssl_NAME`: the encrypted connection
    Ssl(SslVar),
    /// Anything else: a variable that a plugin may have set for this request.
    Custom(String),
}

impl Var {
    /// Parses a name without its `$`. Every name parses; unknown ones become [`Var::Custom`].
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name {
            "request_method" | "method" => Self::RequestMethod,
            "uri" | "document_uri" => Self::Uri,
            "request_uri" => Self::RequestUri,
            "args" | "query_string" => Self::QueryString,
            "is_args" => Self::IsArgs,
            "host" => Self::Host,
            "hostname" => Self::Hostname,
            "scheme" => Self::Scheme,
            "server_protocol" => Self::ServerProtocol,
            "request" => Self::RequestLine,
            "request_length" => Self::RequestLength,
            "request_time" => Self::RequestTime,
            "request_id" | "apisix_request_id" => Self::RequestId,
            "remote_addr" => Self::RemoteAddr,
            "remote_port" => Self::RemotePort,
            "remote_user" => Self::RemoteUser,
            "server_addr" => Self::ServerAddr,
            "server_port" => Self::ServerPort,
            "server_name" => Self::ServerName,
            "status" => Self::Status,
            "bytes_sent" => Self::BytesSent,
            "body_bytes_sent" => Self::BodyBytesSent,
            "upstream_addr" => Self::UpstreamAddr,
            "balancer_ip" => Self::BalancerIp,
            "balancer_port" => Self::BalancerPort,
            "upstream_status" => Self::UpstreamStatus,
            "upstream_response_time" => Self::UpstreamResponseTime,
            "upstream_scheme" => Self::UpstreamScheme,
            "upstream_host" => Self::UpstreamHost,
            "upstream_uri" => Self::UpstreamUri,
            "route_id" => Self::RouteId,
            "route_name" => Self::RouteName,
            "service_id" => Self::ServiceId,
            "service_name" => Self::ServiceName,
            "consumer_name" => Self::ConsumerName,
            "consumer_group_id" => Self::ConsumerGroupId,
            "matched_uri" => Self::MatchedUri,
            "matched_host" => Self::MatchedHost,
            "time_local" => Self::TimeLocal,
            "time_iso8601" => Self::TimeIso8601,
            "msec" => Self::Msec,
            "pid" => Self::Pid,
            "connection" => Self::Connection,
            "connection_requests" => Self::ConnectionRequests,
            "https" => Self::Https,
            _ => Self::parse_prefixed(name),
        }
    }

    fn parse_prefixed(name: &str) -> Self {
        let dashed = |rest: &str| rest.to_ascii_lowercase().replace('_', "-");
        if let Some(known) = SslVar::parse(name) {
            Self::Ssl(known)
        } else if let Some(rest) = name.strip_prefix("arg_") {
            Self::Arg(rest.to_owned())
        } else if let Some(rest) = name.strip_prefix("http_") {
            Self::Http(dashed(rest))
        } else if let Some(rest) = name.strip_prefix("sent_http_") {
            Self::SentHttp(dashed(rest))
        } else if let Some(rest) = name.strip_prefix("cookie_") {
            Self::Cookie(rest.to_owned())
        } else if let Some(rest) = name.strip_prefix("post_arg_") {
            Self::PostArg(rest.to_owned())
        } else {
            Self::Custom(name.to_owned())
        }
    }
}

/// A variable of an encrypted connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SslVar {
    /// `ssl_server_name`: asked for by the client
    ServerName,
    /// `ssl_protocol`: `TLSv1.3`
    Protocol,
    /// `ssl_cipher`
    Cipher,
    /// `ssl_session_reused`: `r` or `.`
    SessionReused,
    /// `ssl_client_verify`: `SUCCESS`, `NONE` or `FAILED:reason`
    ClientVerify,
    /// `ssl_client_s_dn`
    ClientSubject,
    /// `ssl_client_i_dn`
    ClientIssuer,
    /// `ssl_client_serial`
    ClientSerial,
    /// `ssl_client_fingerprint`: SHA-1
    ClientFingerprint,
    /// `ssl_client_raw_cert`: PEM
    ClientRawCert,
    /// `ssl_client_escaped_cert`: PEM, percent-encoded
    ClientEscapedCert,
}

impl SslVar {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ssl_server_name" => Self::ServerName,
            "ssl_protocol" => Self::Protocol,
            "ssl_cipher" => Self::Cipher,
            "ssl_session_reused" => Self::SessionReused,
            "ssl_client_verify" => Self::ClientVerify,
            "ssl_client_s_dn" => Self::ClientSubject,
            "ssl_client_i_dn" => Self::ClientIssuer,
            "ssl_client_serial" => Self::ClientSerial,
            "ssl_client_fingerprint" => Self::ClientFingerprint,
            "ssl_client_raw_cert" => Self::ClientRawCert,
            "ssl_client_escaped_cert" => Self::ClientEscapedCert,
            _ => return None,
        })
    }
}

/// Something that knows the values of variables: a request in flight, or a test.
pub trait VarSource {
    /// The value, as bytes because header values need not be UTF-8; `None` where the variable is absent.
    fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>>;

    /// Whether the variable holds a list with `element` in it (`graphql_root_fields`); false for plain text, however
    /// it may be made up, and for absent variables.
    fn list_contains(&self, _var: &Var, _element: &[u8]) -> bool {
        false
    }
}

/// Text with variables in it: `$remote_addr ${http_x_real_ip}`; `\$` is a dollar sign, and `${http_count ?? 2}` is 2
/// where the variable is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// With what stands for it where it is absent.
    Var(Var, Option<String>),
}

impl Template {
    /// Parses `text`. Every text parses: a `$` that no name follows stands for itself.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, after) = (&rest[..at], &rest[at + 1..]);
            if let Some(before) = before.strip_suffix('\\') {
                plain.push_str(before);
                plain.push('$');
                rest = after;
                continue;
            }
            plain.push_str(before);
            let (name, tail) = Self::name(after);
            if name.is_empty() {
                plain.push('$');
            } else {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                let (name, fallback) = match name.split_once("??") {
                    Some((name, fallback)) => (name.trim_end(), Some(fallback.trim_start().to_owned())),
                    None => (name, None),
                };
                parts.push(Part::Var(Var::parse(name), fallback));
            }
            rest = tail;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self(parts)
    }

    /// The variable's name at the start of `after` (bare or in braces), and what follows it.
    fn name(after: &str) -> (&str, &str) {
        if let Some((name, tail)) = after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            return (name.trim(), tail);
        }
        let end =
            after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(after.len());
        after.split_at(end)
    }

    /// Appends the text with the variables' values to `out` and says how many variables had one or a fallback; absent
    /// ones leave nothing.
    pub fn render(&self, source: &dyn VarSource, out: &mut Vec<u8>) -> usize {
        let mut resolved = 0;
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Var(var, fallback) => {
                    let value =
                        source.var(var).or(fallback.as_deref().map(|text| Cow::Borrowed(text.as_bytes())));
                    if let Some(value) = value {
                        out.extend_from_slice(&value);
                        resolved += 1;
                    }
                }
            }
        }
        resolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;
    impl VarSource for Fixed {
        fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
            match var {
                Var::RemoteAddr => Some(Cow::Borrowed(b"127.0.0.1")),
                Var::Http(name) if name == "x-real-ip" => Some(Cow::Borrowed(b"10.0.0.1")),
                _ => None,
            }
        }
    }

    #[test]
    fn templates_render_and_count_what_they_found() {
        for (text, expected, count) in [
            ("$remote_addr $http_x_real_ip", "127.0.0.1 10.0.0.1", 2),
            ("${remote_addr}x", "127.0.0.1x", 1),
            ("$arg_none-", "-", 0),
            (r"\$5 and $", "$5 and $", 0),
            ("plain", "plain", 0),
            ("${ http_count ?? 2 }-${remote_addr ?? none}", "2-127.0.0.1", 2),
        ] {
            let mut out = Vec::new();
            assert_eq!(Template::parse(text).render(&Fixed, &mut out), count, "{text}");
            assert_eq!(String::from_utf8(out).expect("utf-8"), expected, "{text}");
        }
    }
}
