//! Variables of a request (`$remote_addr`, `$arg_id`, `$http_user_agent` ...), named as in nginx and APISIX.
//!
//! A name is parsed once, when a configuration is compiled; per request only [`VarSource::var`] runs.

use crate::JsonPath;
use serde_json::Value;
use std::borrow::Cow;

/// A variable, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Var {
    /// `request_method`, `method`
    RequestMethod,
    /// `uri`: the normalised path
    Uri,
    /// `request_uri`: normalised path and query, as APISIX has it
    RequestUri,
    /// `real_request_uri`: path and query as the client sent them
    RealRequestUri,
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
    /// `content_type`
    ContentType,
    /// `content_length`
    ContentLength,
    /// `https`: `on` or absent
    Https,
    /// `binary_remote_addr`: 4 or 16 bytes
    BinaryRemoteAddr,
    /// `nginx_version`: this program's
    Version,
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
    /// `upstream_unresolved_host`: the node's host as configured
    UpstreamUnresolvedHost,
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
    /// `original_x_forwarded_for`, `-proto`, `-host`, `-port` and `original_forwarded`: the request header as the client
    /// sent it, trusted or not; held as that of `http_NAME`
    Original(&'static str),
    /// `var_x_forwarded_host`: the authority that the client asked for, with its port
    ObservedHost,
    /// `var_x_forwarded_port`: the port of that authority, or the listener's
    ObservedPort,
    /// `sent_http_NAME`: a response header; held in lower case with dashes
    SentHttp(String),
    /// `cookie_NAME`
    Cookie(String),
    /// `post_arg_NAME`: a field of a form in the body (`application/x-www-form-urlencoded`)
    PostArg(String),
    /// `post_arg.PATH`: what stands there in the body, be it JSON or a form
    PostField(JsonPath),
    /// `graphql_name`: the name of the first operation, empty where it has none
    GraphqlName,
    /// `graphql_operation`: `query`, `mutation` or `subscription`
    GraphqlOperation,
    /// `graphql_root_fields`: a list
    GraphqlRootFields,
    /// `uri_param_NAME`: what a parameter of the route's path (`:NAME`, `*NAME`) stands for
    UriParam(String),
    /// `ssl_NAME`: the encrypted connection
    Ssl(SslVar),
    /// Anything else: a variable that a plugin may have set for this request.
    Custom(String),
}

impl Var {
    /// Parses a name without its `$`. Every name parses; unknown ones become [`Var::Custom`], and so do names with a
    /// bad path in them, which nothing will ever set.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        Self::try_parse(name).unwrap_or_else(|_| Self::Custom(name.to_owned()))
    }

    /// Parses a name without its `$`, for those who can refuse it.
    ///
    /// # Errors
    /// What is wrong with the path of a `post_arg.PATH`.
    pub fn try_parse(name: &str) -> Result<Self, String> {
        match name.strip_prefix("post_arg.") {
            Some(path) => JsonPath::parse(path).map(Self::PostField),
            None => Ok(Self::parse_plain(name)),
        }
    }

    /// Whether its value has types and may be a list, and is asked for by [`VarSource::json`]; that of any other
    /// variable is text.
    #[must_use]
    #[inline]
    pub fn is_structured(&self) -> bool {
        matches!(self, Self::PostField(_) | Self::GraphqlRootFields)
    }

    /// What of the request's body it is made from.
    #[must_use]
    pub fn body_need(&self) -> BodyNeed {
        match self {
            Self::PostArg(_) | Self::PostField(_) => BodyNeed { fields: true, graphql: false },
            Self::GraphqlName | Self::GraphqlOperation | Self::GraphqlRootFields => {
                BodyNeed { fields: false, graphql: true }
            }
            _ => BodyNeed::default(),
        }
    }

    fn parse_plain(name: &str) -> Self {
        match name {
            "request_method" | "method" => Self::RequestMethod,
            "uri" | "document_uri" => Self::Uri,
            "request_uri" => Self::RequestUri,
            "real_request_uri" => Self::RealRequestUri,
            "args" | "query_string" => Self::QueryString,
            "is_args" => Self::IsArgs,
            "host" => Self::Host,
            "hostname" => Self::Hostname,
            "scheme" => Self::Scheme,
            "server_protocol" => Self::ServerProtocol,
            "request" | "request_line" => Self::RequestLine,
            "content_type" => Self::ContentType,
            "content_length" => Self::ContentLength,
            "https" => Self::Https,
            "binary_remote_addr" => Self::BinaryRemoteAddr,
            "nginx_version" => Self::Version,
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
            "upstream_unresolved_host" => Self::UpstreamUnresolvedHost,
            "graphql_name" => Self::GraphqlName,
            "graphql_operation" => Self::GraphqlOperation,
            "graphql_root_fields" => Self::GraphqlRootFields,
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
            "original_x_forwarded_for" => Self::Original("x-forwarded-for"),
            "original_x_forwarded_proto" => Self::Original("x-forwarded-proto"),
            "original_x_forwarded_host" => Self::Original("x-forwarded-host"),
            "original_x_forwarded_port" => Self::Original("x-forwarded-port"),
            "original_forwarded" => Self::Original("forwarded"),
            "var_x_forwarded_host" => Self::ObservedHost,
            "var_x_forwarded_port" => Self::ObservedPort,
            "pid" => Self::Pid,
            "connection" => Self::Connection,
            "connection_requests" => Self::ConnectionRequests,
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
        } else if let Some(rest) = name.strip_prefix("uri_param_") {
            Self::UriParam(rest.to_owned())
        } else {
            Self::Custom(name.to_owned())
        }
    }
}

/// What of a request's body a variable is made from. Bodies are read ahead only where somebody needs one of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BodyNeed {
    /// Form fields or JSON (`post_arg_`, `post_arg.`).
    pub fields: bool,
    /// A GraphQL document (`graphql_`).
    pub graphql: bool,
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

    /// The value of a variable that [`Var::is_structured`]; `None` where it is absent, and for all others.
    fn json(&self, _var: &Var) -> Option<Cow<'_, Value>> {
        None
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

impl BodyNeed {
    /// Whether nothing of the body is needed.
    #[must_use]
    #[inline]
    pub fn is_none(self) -> bool {
        !self.fields && !self.graphql
    }

    /// What either of the two needs.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { fields: self.fields || other.fields, graphql: self.graphql || other.graphql }
    }
}

impl FromIterator<BodyNeed> for BodyNeed {
    fn from_iter<I: IntoIterator<Item = Self>>(needs: I) -> Self {
        needs.into_iter().fold(Self::default(), Self::or)
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
