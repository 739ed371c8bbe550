//! The values of variables, read from an exchange.

use crate::var_text::{number, present, seconds, ssl_var, text};
use crate::{Exchange, RouteInfo, UpstreamTrace, form};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::var::{Var, VarSource};
use router::{RequestFacts, uri_param};
use serde_json::Value;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl RequestFacts for Exchange<'_> {
    fn host(&self) -> &[u8] {
        &self.request.host
    }

    fn path(&self) -> &[u8] {
        self.request.route_path()
    }

    fn method(&self) -> &[u8] {
        self.request.method()
    }

    fn remote_ip(&self) -> IpAddr {
        self.client.ip()
    }
}

impl UpstreamTrace {
    /// The variables that say where a request or a session went.
    pub(crate) fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        match var {
            Var::UpstreamAddr => text(self.addr()),
            Var::BalancerIp => text(self.ip()),
            Var::BalancerPort => text(self.addr().get(self.ip_len + 1..).unwrap_or_default()),
            Var::UpstreamScheme => text(self.scheme),
            Var::UpstreamUnresolvedHost => text(self.node_host()),
            _ => None,
        }
    }
}

impl RouteInfo {
    /// The variables that say by which route.
    pub(crate) fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        match var {
            Var::RouteId => text(&self.id),
            Var::RouteName => text(&self.name),
            Var::ServiceId => text(&self.service_id),
            Var::ServiceName => text(&self.service_name),
            _ => None,
        }
    }
}

impl VarSource for Exchange<'_> {
    fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        if let Some(value) = self.request_var(var) {
            return Some(value);
        }
        match var {
            Var::Status => (self.status != 0).then(|| number(u64::from(self.status))),
            Var::BytesSent => Some(number(self.timing.sent_bytes)),
            Var::BodyBytesSent => Some(number(self.timing.sent_body_bytes)),
            Var::RequestLength => Some(number(self.timing.request_bytes)),
            Var::RequestTime => Some(seconds(self.timing.total)),
            Var::ConnectionRequests => Some(number(self.timing.request_number)),
            Var::UpstreamStatus => {
                (self.upstream.status != 0).then(|| number(u64::from(self.upstream.status)))
            }
            Var::UpstreamResponseTime => self.upstream.time.map(seconds),
            Var::UpstreamAddr
            | Var::BalancerIp
            | Var::BalancerPort
            | Var::UpstreamScheme
            | Var::UpstreamUnresolvedHost => self.upstream.var(var),
            Var::RouteId | Var::RouteName | Var::ServiceId | Var::ServiceName => self.route?.var(var),
            Var::ConsumerName => text(&self.consumer.as_ref()?.name),
            Var::ConsumerGroupId => text(&self.consumer.as_ref()?.group_id),
            Var::MatchedUri => text(self.matched_uri),
            Var::MatchedHost => text(self.matched_host),
            Var::UriParam(name) => {
                uri_param(self.matched_uri, self.request.route_path(), name).map(Cow::Borrowed)
            }
            Var::SentHttp(name) => self.reply_headers.get(name.as_bytes()).flatten().map(Cow::Borrowed),
            Var::Custom(name) => self
                .vars
                .iter()
                .rev()
                .find(|(set, _)| set == name)
                .map(|(_, value)| Cow::Borrowed(value.as_slice())),
            _ => None,
        }
    }

    fn json(&self, var: &Var) -> Option<Cow<'_, Value>> {
        let body = self.request.body.as_ref()?;
        match var {
            Var::PostField(path) => path.find(body.fields()?),
            Var::GraphqlRootFields => {
                let operation = body.operation(self.request.method(), self.request.query())?;
                Some(Cow::Borrowed(&operation.root_fields))
            }
            _ => None,
        }
    }
}

/// Who the client says it is in basic authentication, right or wrong.
fn basic_user(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, claim) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut user = STANDARD.decode(claim.trim_ascii()).ok()?;
    let colon = user.iter().position(|byte| *byte == b':')?;
    user.truncate(colon);
    Some(user)
}

impl Exchange<'_> {
    /// Variables that are known from the start: the request's, the connection's, the process's.
    fn request_var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        let request = &self.request;
        match var {
            Var::RemoteAddr => text(&self.client.ip_text),
            Var::RemoteUser => basic_user(request.header(b"authorization")?).map(Cow::Owned),
            Var::RemotePort => Some(number(u64::from(self.client.addr.port()))),
            Var::ServerAddr => Some(Cow::Owned(self.client.local.ip().to_string().into_bytes())),
            Var::ServerPort => Some(number(u64::from(self.client.local.port()))),
            Var::Scheme => text(self.client.scheme()),
            Var::Https => self.client.tls.as_ref().map(|_| Cow::Borrowed(&b"on"[..])),
            Var::Ssl(var) => ssl_var(*var, self.client.tls.as_deref()?),
            Var::Connection => Some(number(self.client.serial)),
            Var::RequestMethod => Some(Cow::Borrowed(request.method())),
            Var::Uri => Some(Cow::Borrowed(&request.path)),
            Var::RequestUri => {
                let mark: &[u8] = if request.query().is_empty() { b"" } else { b"?" };
                Some(Cow::Owned([&request.path, mark, request.query()].concat()))
            }
            Var::RealRequestUri => Some(Cow::Borrowed(request.target())),
            Var::QueryString => present(request.query()),
            Var::IsArgs => Some(Cow::Borrowed(if request.query().is_empty() { &b""[..] } else { b"?" })),
            Var::Host | Var::ServerName => present(&request.host),
            Var::ServerProtocol => Some(Cow::Borrowed(request.view.head.facts.version())),
            Var::RequestLine => {
                if let Some(line) = request.refused_line() {
                    return Some(Cow::Borrowed(line));
                }
                let version = request.view.head.facts.version();
                Some(Cow::Owned([request.method(), request.target(), version].join(&b' ')))
            }
            Var::Http(name) => {
                request.header(name.as_bytes()).map(Cow::Borrowed).or_else(|| self.observed(name))
            }
            Var::Original(name) => request.view.sent(name.as_bytes()).map(Cow::Borrowed),
            Var::ObservedHost => self.observed_host(),
            Var::ObservedPort => Some(self.observed_port()),
            Var::Arg(name) => form::field(request.query(), name.as_bytes()),
            Var::ContentType => request.header(b"content-type").map(Cow::Borrowed),
            Var::ContentLength => request.header(b"content-length").map(Cow::Borrowed),
            Var::BinaryRemoteAddr => Some(Cow::Owned(match self.client.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            })),
            Var::Version => text(env!("CARGO_PKG_VERSION")),
            Var::PostArg(_)
            | Var::PostField(_)
            | Var::GraphqlName
            | Var::GraphqlOperation
            | Var::GraphqlRootFields => self.body_var(var),
            Var::Cookie(name) => request.cookie(name.as_bytes()).map(Cow::Borrowed),
            Var::UpstreamHost => match self.upstream.host.as_deref() {
                Some(host) => text(host),
                None => request.known(wire::Known::Host).map(Cow::Borrowed),
            },
            Var::UpstreamUri => match request.edits.as_ref().and_then(|edits| edits.target.as_deref()) {
                Some(target) => Some(Cow::Borrowed(target)),
                None => Some(Cow::Borrowed(request.target())),
            },
            Var::RequestId => Some(Cow::Owned(format!("{:032x}", self.id()).into_bytes())),
            Var::Hostname => text(&self.gateway.hostname),
            Var::Pid => Some(number(u64::from(self.gateway.pid))),
            Var::Msec => Some(seconds(since_1970())),
            Var::TimeLocal | Var::TimeIso8601 => {
                let [local, iso8601] = observe::local_time(since_1970().as_secs().cast_signed());
                let time = if *var == Var::TimeLocal { local } else { iso8601 };
                Some(Cow::Owned(time.into_bytes()))
            }
            _ => None,
        }
    }
}

impl Exchange<'_> {
    /// What upstreams are told in a field `X-Forwarded-*` that the request has not, or has no longer because its peer is
    /// not trusted. As in APISIX, conditions see it as if it had been sent; what a plugin removed stays away.
    #[cold]
    fn observed(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let part = name.strip_prefix("x-forwarded-")?;
        if self.request.edits.as_ref().is_some_and(|edits| edits.headers.get(name.as_bytes()).is_some()) {
            return None;
        }
        match part {
            "proto" => text(self.client.scheme()),
            "host" => self.observed_host(),
            "port" => Some(self.observed_port()),
            _ => None,
        }
    }

    fn observed_host(&self) -> Option<Cow<'_, [u8]>> {
        present(self.request.view.head.authority.get(self.request.view.bytes))
    }

    fn observed_port(&self) -> Cow<'_, [u8]> {
        let head = self.request.view.head;
        match head.authority.get(self.request.view.bytes).get(head.host.len() + 1..) {
            Some(port) if !port.is_empty() => Cow::Borrowed(port),
            _ => number(u64::from(self.client.local.port())),
        }
    }

    /// Variables that are made from the body, as text.
    fn body_var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        let body = self.request.body.as_ref()?;
        let operation = || body.operation(self.request.method(), self.request.query());
        match var {
            Var::PostArg(name) => body.form_field(name),
            Var::GraphqlName => Some(Cow::Borrowed(operation()?.name.as_bytes())),
            Var::GraphqlOperation => text(operation()?.kind),
            _ => match self.json(var)? {
                Cow::Borrowed(Value::String(value)) => Some(Cow::Borrowed(value.as_bytes())),
                Cow::Owned(Value::String(value)) => Some(Cow::Owned(value.into_bytes())),
                other => Some(Cow::Owned(other.to_string().into_bytes())),
            },
        }
    }

    /// `$request_id`, shown as 32 hexadecimal digits as nginx's: unique per process and request, not secret.
    pub(crate) fn id(&self) -> u128 {
        let connection = mix(self.gateway.seed ^ self.client.serial);
        let request = mix(connection.wrapping_add(self.timing.request_number));
        u128::from(connection) << 64 | u128::from(request)
    }
}

/// Spreads the bits of a number over all of another (the finaliser of SplitMix64): a bijection.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::testkit::Bench;
    use crate::{BodyLimits, BodyVars};
    use model::var::{Template, Var, VarSource};
    use router::Expr;
    use serde_json::json;

    #[test]
    fn variables_of_the_request_have_apisix_values() {
        let bench = Bench::new(
            "GET /a/%62?x=1%202&y&na%6de=n\nHost: a.com:80\nContent-Type: text/plain\nContent-Length: 5\n\
             Authorization: basic dXNlcjpwOnE=",
        );
        let mut exchange = bench.exchange();
        (exchange.matched_uri, exchange.matched_host) = ("/a/:id", "");
        for (name, expected) in [
            ("uri", Some("/a/b")),
            ("request_uri", Some("/a/b?x=1%202&y&na%6de=n")),
            ("real_request_uri", Some("/a/%62?x=1%202&y&na%6de=n")),
            ("remote_user", Some("user")),
            ("arg_x", Some("1 2")),
            ("arg_y", Some("")),
            ("arg_name", Some("n")),
            ("arg_none", None),
            ("uri_param_id", Some("b")),
            ("uri_param_none", None),
            ("content_type", Some("text/plain")),
            ("content_length", Some("5")),
            ("https", None),
            ("post_arg_x", None),
            ("post_arg.x", None),
            ("graphql_name", None),
        ] {
            let value =
                exchange.var(&Var::parse(name)).map(|value| String::from_utf8_lossy(&value).into_owned());
            assert_eq!(value.as_deref(), expected, "{name}");
        }
        exchange.request.set_route_path(b"/a/x%2Fy".to_vec());
        assert_eq!(exchange.var(&Var::parse("uri_param_id")).as_deref(), Some(&b"x%2Fy"[..]));
        assert_eq!(exchange.var(&Var::Uri).as_deref(), Some(&b"/a/b"[..]));
    }

    #[test]
    fn what_a_peer_without_trust_forwards_is_replaced_and_kept_aside() {
        let forged = "GET /\nHost: A.com:81\nX-Forwarded-Proto: https\nX-Forwarded-Host: evil\nX-Forwarded-Port: 6\n\
                      X-Forwarded-For: 6.6.6.6\nForwarded: for=6.6.6.6\nX-Other: 1";
        let value = |exchange: &crate::Exchange<'_>, name: &str| {
            exchange.var(&Var::parse(name)).map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        for (chain, left) in [(false, Some("6.6.6.6")), (true, None)] {
            let bench = Bench::new(forged).withdrawing(chain);
            let mut exchange = bench.exchange();
            for (name, expected) in [
                ("http_x_forwarded_proto", Some("http")),
                ("http_x_forwarded_host", Some("A.com:81")),
                ("http_x_forwarded_port", Some("81")),
                ("http_x_forwarded_for", left),
                ("http_forwarded", None),
                ("http_x_other", Some("1")),
                ("var_x_forwarded_host", Some("A.com:81")),
                ("var_x_forwarded_port", Some("81")),
                ("original_x_forwarded_proto", Some("https")),
                ("original_x_forwarded_host", Some("evil")),
                ("original_x_forwarded_port", Some("6")),
                ("original_x_forwarded_for", Some("6.6.6.6")),
                ("original_forwarded", Some("for=6.6.6.6")),
            ] {
                assert_eq!(value(&exchange, name).as_deref(), expected, "{chain} {name}");
            }
            // What a plugin removes is gone, and what it sets counts.
            exchange.request.edit().headers.remove("X-Forwarded-Host");
            exchange.request.edit().headers.set("X-Forwarded-Proto", "wss");
            assert_eq!(value(&exchange, "http_x_forwarded_host"), None);
            assert_eq!(value(&exchange, "http_x_forwarded_proto").as_deref(), Some("wss"));
        }
    }

    #[test]
    fn variables_of_the_body_have_types_in_conditions_and_are_text_elsewhere() {
        let bench = Bench::new("POST /");
        let mut exchange = bench.exchange();
        let body = br#"{"model": "m", "n": 5, "on": true, "list": [{"t": "a"}, {"t": "b"}]}"#.to_vec();
        let body = BodyVars::new(Some(b"application/json"), Some(body), BodyLimits::default());
        exchange.request.body = Some(Box::new(body));
        for (rule, expected) in [
            (
                json!([["post_arg.model", "==", "m"], ["post_arg.n", ">", 4], ["post_arg.on", "==", true]]),
                true,
            ),
            (json!([["post_arg.list[*].t", "has", "b"]]), true),
            (json!([["post_arg.list[*].t", "has", "c"]]), false),
            (json!([["post_arg.none", "==", "m"]]), false),
            (json!([["post_arg.none", "!", "==", "m"]]), true),
        ] {
            assert_eq!(Expr::compile(&rule).expect("valid").eval(&exchange), expected, "{rule}");
        }
        let mut text = Vec::new();
        Template::parse("$post_arg.model ${post_arg.n} ${post_arg.list[0].t}").render(&exchange, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), "m 5 [\"a\"]");
    }
}
