//! The entry of a request, in APISIX's shape.

use super::bodies::{Bodies, SeenResponse};
use super::config::Config;
use super::format::{Format, text};
use super::headers;
use model::ConfigError;
use model::var::{BodyNeed, Var, VarSource};
use plugin::{Exchange, Session};
use router::Expr;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What is said of a request.
#[derive(Debug, Default)]
pub struct Entry {
    /// Its members.
    pub fields: Map<String, Value>,
    /// Whether they are those of a `log_format`.
    pub custom: bool,
}

/// Makes entries.
#[derive(Debug)]
pub(super) struct EntryMaker {
    /// In place of the default entry.
    format: Option<Format>,
    /// Beside what the default entry has.
    extra: Option<Format>,
    /// One of them has to hold.
    conditions: Option<Vec<Expr>>,
}

impl EntryMaker {
    /// What a configuration says goes before the metadata.
    pub(super) fn compile(config: &Config, metadata: Option<&Value>) -> Result<Self, Vec<ConfigError>> {
        let general = |name: &str| metadata?.get(name)?.as_object().filter(|format| !format.is_empty());
        let compile = |own: &Option<Map<String, Value>>, name: &str| {
            let format = own.as_ref().or_else(|| general(name));
            format.map(|format| Format::compile(format, &format!("/{name}"))).transpose()
        };
        let format = compile(&config.log_format, "log_format")?;
        let extra = compile(&config.log_format_extra, "log_format_extra")?.filter(|_| format.is_none());
        let condition = |(at, condition)| {
            let place = |error: ConfigError| {
                let message = format!("failed to validate the 'match' expression: {}", error.message);
                ConfigError { message, ..error }.under(&format!("/match/{at}"))
            };
            Expr::compile(condition).map_err(|errors| errors.into_iter().map(place).collect::<Vec<_>>())
        };
        let conditions = config.conditions.as_ref();
        let conditions = conditions.map(|all| all.iter().enumerate().map(condition).collect()).transpose()?;
        Ok(Self { format, extra, conditions })
    }

    fn formats(&self) -> impl Iterator<Item = &Format> {
        self.format.iter().chain(&self.extra)
    }

    pub(super) fn has_request_body(&self) -> bool {
        self.formats().any(Format::has_body)
    }

    pub(super) fn has_response_fields(&self) -> bool {
        self.format.as_ref().is_none_or(Format::has_response_fields)
    }

    pub(super) fn body_need(&self) -> BodyNeed {
        let conditions = self.conditions.iter().flatten().map(Expr::body_need);
        self.formats().map(Format::body_need).chain(conditions).collect()
    }

    /// Whether the request is to be logged.
    pub(super) fn admits(&self, exchange: &Exchange<'_>) -> bool {
        self.conditions.as_ref().is_none_or(|all| all.iter().any(|condition| condition.eval(exchange)))
    }

    /// The entry of a request.
    pub(super) fn of_exchange(
        &self,
        exchange: &Exchange<'_>,
        bodies: &Bodies,
        seen: Option<&SeenResponse>,
    ) -> Entry {
        let fill = |format: &Format| {
            let value = |var: &Var| match var {
                Var::SentHttp(name) => seen?.fields.get(name).cloned(),
                var => value(exchange, var),
            };
            format.fill(&value, &|| bodies.request(exchange))
        };
        let Some(format) = &self.format else {
            let mut entry = full(exchange, bodies, seen);
            for (name, value) in self.extra.as_ref().map(fill).unwrap_or_default() {
                entry.entry(name).or_insert(value);
            }
            return Entry { fields: entry, custom: false };
        };
        let mut entry = fill(format);
        if let Some(route) = exchange.route {
            entry.insert("route_id".to_owned(), route.id.as_str().into());
            if !route.service_id.is_empty() {
                entry.insert("service_id".to_owned(), route.service_id.as_str().into());
            }
        }
        Entry { fields: entry, custom: true }
    }

    /// The entry of a session, which has no default form.
    pub(super) fn of_session(&self, session: &Session<'_>) -> Option<Entry> {
        let mut entry = self.format.as_ref()?.fill(&|var| value(session, var), &|| None);
        if let Some(route) = session.route {
            entry.insert("route_id".to_owned(), route.id.as_str().into());
        }
        Some(Entry { fields: entry, custom: true })
    }
}

/// A variable's value: text, unless it has a type.
fn value(source: &dyn VarSource, var: &Var) -> Option<Value> {
    if var.is_structured() {
        return source.json(var).map(|value| value.into_owned());
    }
    source.var(var).map(|value| text(&value))
}

/// The default entry.
fn full(exchange: &Exchange<'_>, bodies: &Bodies, seen: Option<&SeenResponse>) -> Map<String, Value> {
    let var = |var: &Var| value(exchange, var);
    let plain =
        |name: &Var| exchange.var(name).map(|v| String::from_utf8_lossy(&v).into_owned()).unwrap_or_default();
    let url = [Var::Scheme, Var::Host, Var::ServerPort, Var::RequestUri].map(|part| plain(&part));
    let [scheme, host, port, request_uri] = &url;
    let mut request = json!({
        "url": format!("{scheme}://{host}:{port}{request_uri}"),
        "uri": request_uri,
        "method": plain(&Var::RequestMethod),
        "headers": headers::of_request(exchange),
        "querystring": plugin::form_fields(exchange.request.query()),
        "size": exchange.timing.request_bytes,
    });
    if let Some(body) = bodies.included_request(exchange) {
        request["body"] = text(body);
    }
    let mut response = json!({
        "status": exchange.status,
        "headers": seen.map(|seen| seen.fields.clone()).unwrap_or_default(),
        "size": exchange.timing.sent_bytes,
    });
    if let Some(body) = seen.and_then(SeenResponse::body) {
        response["body"] = text(&body);
    }
    let (total, upstream) = (exchange.timing.total, exchange.upstream.time);
    let server = json!({ "hostname": exchange.gateway.hostname, "version": env!("CARGO_PKG_VERSION") });
    let now_s: f64 = plain(&Var::Msec).parse().unwrap_or_default();
    let (route_id, service_id) = match exchange.route {
        Some(route) => (Some(route.id.as_str()), route.service_id.as_str()),
        None => (None, host.as_str()),
    };
    let consumer = exchange.consumer.map(|consumer| json!({ "username": consumer.name }));
    [
        ("request", Some(request)),
        ("response", Some(response)),
        ("server", Some(server)),
        ("upstream", var(&Var::UpstreamAddr)),
        ("service_id", Some(service_id.into())),
        ("route_id", route_id.map(Value::from)),
        ("consumer", consumer),
        ("client_ip", var(&Var::RemoteAddr)),
        ("start_time", Some((now_s.mul_add(1000.0, -ms(total)).round()).into())),
        ("latency", Some(ms(total).into())),
        ("upstream_latency", upstream.map(|time| ms(time).into())),
        ("apisix_latency", Some(ms(total.saturating_sub(upstream.unwrap_or_default())).into())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// Milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    f64::from(u32::try_from(time.as_micros()).unwrap_or(u32::MAX)) / 1000.0
}
