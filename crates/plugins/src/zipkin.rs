//! Reports spans of requests to Zipkin and propagates the trace in B3 header fields.
//!
//! ## When to use
//! Use it when requests are traced across services in Zipkin or a compatible system such as Jaeger or SkyWalking.
//!
//! ## Example
//! ```json
//! {
//!     "zipkin": {
//!         "endpoint": "http://127.0.0.1:9411/api/v2/spans",
//!         "sample_ratio": 1
//!     }
//! }
//! ```
//! A client that sends `b3` or `X-B3-*` headers decides whether its request is sampled, and its trace goes on. With
//! `set_ngx_var` in `plugin_attr`, the access log may have `$zipkin_context_traceparent`, `$zipkin_trace_id` and
//! `$zipkin_span_id`.
//!
//! ## Differences from APISIX
//! - Pending spans are limited in number and to 64 MiB.
//! - `X-B3-ParentSpanId` is not forwarded if the client's trace is not continued.

use crate::random::Random;
use delivery::{Backlog, Batches, Framing, Gathering, HttpCollector};
use model::ConfigError;
use model::var::{Var, VarSource as _};
use plugin::{
    CompileContext, Exchange, Flow, OnAccess, OnLog, OnResponse, OnRewrite, Plugin, PluginDef,
    UpstreamResponse,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use stdx::Clock;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Zipkin>("zipkin", 12011).on_rewrite().on_access().on_response().on_log().build()
}

/// Spans that may wait, for all routes together.
const PENDING_MAX: usize = 8192;

/// For a batch.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint: String,
    sample_ratio: f64,
    service_name: String,
    server_addr: Option<String>,
    span_version: u8,
}

/// The compiled form.
pub struct Zipkin {
    batches: Batches,
    service_name: String,
    server_addr: Option<String>,
    /// Whether the gateway's own phases are spans: `span_version` 1.
    by_phase: bool,
    sample_ratio: f64,
    sets_vars: bool,
    random: SystemRandom,
    lots: Arc<Random>,
    clock: Arc<Clock>,
}

/// What waits, for all routes together.
#[derive(Default)]
struct Pending(Arc<Backlog>);

/// The trace of a request.
#[derive(Debug, Clone)]
struct Trace {
    /// 16 or 32 hexadecimal digits.
    id: String,
    /// The span of the request, and the client's.
    span: String,
    parent: Option<String>,
    /// What is known of a request that is sampled.
    sample: Option<Sample>,
}

/// Times are since the request began.
#[derive(Debug, Clone)]
struct Sample {
    /// The span that the upstream continues.
    proxy: String,
    method: String,
    url: String,
    peer: String,
    peer_port: u16,
    rewritten: Duration,
    accessed: Duration,
    answered: Option<Duration>,
}

/// What a client said of its trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Given {
    trace: Option<String>,
    span: Option<String>,
    parent: Option<String>,
    sampled: Option<String>,
}

impl Given {
    /// The single header (<https://github.com/openzipkin/b3-propagation#single-header>); `None` where it is malformed.
    fn single(b3: &str) -> Option<Self> {
        if b3 == "0" {
            return Some(Self { sampled: Some("0".to_owned()), ..Self::default() });
        }
        let mut parts = b3.splitn(4, '-').map(str::to_owned);
        let (trace, span) = (parts.next(), Some(parts.next()?));
        Some(Self { trace, span, sampled: parts.next(), parent: parts.next() })
    }

    fn several(exchange: &Exchange<'_>) -> Self {
        let text = |name: &str| {
            let value = exchange.request.header(name.as_bytes())?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        Self {
            trace: text("x-b3-traceid"),
            span: text("x-b3-spanid"),
            parent: text("x-b3-parentspanid"),
            sampled: text("x-b3-sampled"),
        }
    }

    /// Whether the ids are such, and there is one of a trace.
    fn has_trace(&self) -> bool {
        let hex = |id: &str, lengths: &[usize]| {
            lengths.contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_span = |id: &Option<String>| id.as_deref().is_none_or(|id| hex(id, &[16]));
        self.trace.as_deref().is_some_and(|id| hex(id, &[16, 32]))
            && is_span(&self.span)
            && is_span(&self.parent)
    }
}

impl Plugin for Zipkin {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let gathering = Gathering {
            name: "zipkin_report".to_owned(),
            batch_max_size: 1000,
            inactive_timeout: Duration::from_secs(5),
            buffer_duration: Duration::from_secs(60),
            max_retry_count: 0,
            retry_delay: Duration::from_secs(1),
            max_pending_entries: PENDING_MAX,
        };
        let server = HttpCollector::new(vec![config.endpoint], TIMEOUT, false)
            .framing(Framing::Array)
            .failure_from(300)
            .header("Content-Type", "application/json");
        let backlog = Arc::clone(&cx.shared.get::<Pending>().0);
        Ok(Self {
            batches: Batches::new(cx.shared.get(), backlog, gathering, server),
            service_name: config.service_name,
            server_addr: config.server_addr.filter(|address| !address.is_empty()),
            by_phase: config.span_version == 1,
            sample_ratio: config.sample_ratio,
            sets_vars: cx.attributes.is_some_and(|attributes| attributes["set_ngx_var"] == true),
            random: SystemRandom::new(),
            lots: cx.shared.get(),
            clock: cx.shared.get(),
        })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "endpoint": {"description": "Where spans are posted.", "type": "string"},
                "sample_ratio": {
                    "description": "The share of requests whose spans are reported.",
                    "type": "number", "minimum": 0.00001, "maximum": 1
                },
                "service_name": {
                    "description": "The service's name in spans.", "type": "string", "default": "APISIX"
                },
                "server_addr": {
                    "description": "The service's address in spans, where that is not the connection's.",
                    "type": "string",
                    "pattern": "^[0-9]{1,3}.[0-9]{1,3}.[0-9]{1,3}.[0-9]{1,3}$"
                },
                "span_version": {
                    "description": "2: spans of the upstream's part and the response's; 1: also of the gateway's phases.",
                    "enum": [1, 2], "default": 2
                }
            },
            "required": ["endpoint", "sample_ratio"]
        })
    }
}

impl OnRewrite for Zipkin {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let debug = exchange.request.header(b"x-b3-flags").is_some_and(|flags| flags == b"1");
        let single = exchange.request.header(b"b3").map(|b3| String::from_utf8_lossy(b3).into_owned());
        let mut given = match single {
            None => Given::several(exchange),
            Some(b3) => {
                exchange.request.edit().headers.remove("b3");
                let Some(given) = Given::single(&b3) else {
                    tracing::error!("zipkin: invalid b3 header: {b3}");
                    return Flow::status(400);
                };
                given
            }
        };
        if given.sampled.as_deref() == Some("d") {
            exchange.request.edit().headers.set("X-B3-Flags", "1");
            given.sampled = Some("1".to_owned());
        }
        let sampled = match given.sampled.as_deref() {
            Some("1" | "true") => true,
            Some("0" | "false") => false,
            _ => debug || self.draws(exchange),
        };
        let (id, parent) = if given.has_trace() {
            (given.trace.take(), Some(given.span.take().unwrap_or_else(|| self.id(8))))
        } else {
            (None, None)
        };
        let id = id.unwrap_or_else(|| self.id(16)).to_ascii_lowercase();
        let trace = Trace {
            id,
            span: self.id(8),
            parent: parent.map(|parent| parent.to_ascii_lowercase()),
            sample: sampled.then(|| self.sample(exchange)),
        };
        if self.sets_vars {
            let parent = format!("00-{}-{}-{:02x}", trace.id, trace.span, u8::from(sampled));
            for (name, value) in [
                ("zipkin_context_traceparent", &parent),
                ("zipkin_trace_id", &trace.id),
                ("zipkin_span_id", &trace.span),
            ] {
                exchange.vars.push((name.to_owned(), value.clone().into_bytes()));
            }
        }
        exchange.extras().note(self, trace);
        Flow::Next
    }
}

impl OnAccess for Zipkin {
    /// The upstream is told once the plugins of the rewrite phase have run.
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Some(mut trace) = self.trace(exchange).cloned() else { return Flow::Next };
        let (span, parent) = match &mut trace.sample {
            None => (trace.span.clone(), trace.parent.clone()),
            Some(sample) => {
                sample.accessed = exchange.timing.started.elapsed();
                (sample.proxy.clone(), Some(trace.span.clone()))
            }
        };
        let headers = &mut exchange.request.edit().headers;
        headers.set("X-B3-TraceId", &trace.id);
        headers.set("X-B3-SpanId", span);
        match parent {
            Some(parent) => headers.set("X-B3-ParentSpanId", parent),
            None => headers.remove("X-B3-ParentSpanId"),
        }
        headers.set("X-B3-Sampled", if trace.sample.is_some() { "1" } else { "0" });
        if trace.sample.is_some() {
            exchange.extras().note(self, trace);
        }
        Flow::Next
    }
}

impl OnResponse for Zipkin {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        let Some(mut trace) = self.trace(exchange).filter(|trace| trace.sample.is_some()).cloned() else {
            return;
        };
        if let Some(sample) = &mut trace.sample {
            sample.answered = Some(exchange.timing.started.elapsed());
        }
        exchange.extras().note(self, trace);
    }
}

impl OnLog for Zipkin {
    fn log(&self, exchange: &Exchange<'_>) {
        if let Some(trace) = self.trace(exchange)
            && let Some(sample) = &trace.sample
        {
            self.report(exchange, trace, sample);
        }
    }
}

impl Zipkin {
    fn trace<'e>(&self, exchange: &'e Exchange<'_>) -> Option<&'e Trace> {
        exchange.extras.as_ref()?.noted(self)
    }

    fn draws(&self, exchange: &Exchange<'_>) -> bool {
        let most = (self.sample_ratio * f64::from(u32::MAX)) as u32;
        self.sample_ratio >= 1.0 || self.lots.below(u32::MAX, exchange) < most
    }

    fn sample(&self, exchange: &Exchange<'_>) -> Sample {
        let text = |var: Var| {
            let value: Cow<'_, [u8]> = exchange.var(&var).unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        Sample {
            proxy: self.id(8),
            method: text(Var::RequestMethod),
            url: text(Var::RequestUri),
            peer: text(Var::RemoteAddr),
            peer_port: text(Var::RemotePort).parse().unwrap_or_default(),
            rewritten: exchange.timing.started.elapsed(),
            accessed: Duration::ZERO,
            answered: None,
        }
    }

    /// A new id of so many bytes, in hexadecimal.
    fn id(&self, count: usize) -> String {
        let mut bytes = [0; 16];
        if self.random.fill(&mut bytes[..count]).is_err() {
            tracing::error!("zipkin: the system gives no random bits");
        }
        bytes[..count].iter().fold(String::new(), |mut id, byte| {
            let _ = write!(id, "{byte:02x}");
            id
        })
    }

    /// Reports the spans, in the order in which they end.
    fn report(&self, exchange: &Exchange<'_>, trace: &Trace, sample: &Sample) {
        let text = |var: Var| {
            let value: Cow<'_, [u8]> = exchange.var(&var).unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        let local = json!({
            "serviceName": self.service_name,
            "ipv4": self.server_addr.clone().unwrap_or_else(|| text(Var::ServerAddr)),
            "port": text(Var::ServerPort).parse::<u16>().unwrap_or_default(),
        });
        let began_us = self.clock.unix_ms(exchange.timing.started) * 1000;
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or_default();
        let end = exchange.timing.total;
        let push = |name: &str, id: &str, parent: Option<&str>, from: Duration, to: Duration, more: Value| {
            let mut span = json!({
                "traceId": trace.id,
                "name": name,
                "id": id,
                "timestamp": began_us + micros(from),
                "duration": micros(to.saturating_sub(from)),
                "localEndpoint": local,
                "remoteEndpoint": null,
                "tags": {},
            });
            if let Some(parent) = parent {
                span["parentId"] = parent.into();
            }
            if let Value::Object(more) = more {
                more.into_iter().for_each(|(name, value)| span[name] = value);
            }
            self.batches.push(span.to_string().into_bytes());
        };
        let (root, plain) = (Some(trace.span.as_str()), || Value::Null);
        let started = if self.by_phase { sample.accessed } else { Duration::ZERO };
        if self.by_phase {
            push("apisix.rewrite", &self.id(8), root, Duration::ZERO, sample.rewritten, plain());
            push(
                "apisix.access",
                &self.id(8),
                root,
                sample.rewritten,
                sample.accessed.max(sample.rewritten),
                plain(),
            );
        }
        match sample.answered {
            Some(answered) if self.by_phase => {
                push("apisix.body_filter", &self.id(8), Some(&sample.proxy), answered, end, plain());
                push("apisix.proxy", &sample.proxy, root, started, end, plain());
            }
            Some(answered) => {
                push("apisix.proxy", &sample.proxy, root, started, answered, plain());
                push("apisix.response_span", &self.id(8), root, answered, end, plain());
            }
            None if self.by_phase => push("apisix.proxy", &sample.proxy, root, started, end, plain()),
            None => {}
        }
        let tags = json!({
            "component": "apisix",
            "http.method": sample.method,
            "http.url": sample.url,
            "http.status_code": exchange.status.to_string(),
            "apisix.response_source": exchange.source.as_str(),
        });
        let remote = json!({"ipv4": sample.peer, "port": sample.peer_port});
        let more = json!({"kind": "SERVER", "remoteEndpoint": remote, "tags": tags});
        push("apisix.request", &trace.span, trace.parent.as_deref(), Duration::ZERO, end, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};
    use serde_json::Map;

    fn given(trace: &str, span: &str, sampled: Option<&str>, parent: Option<&str>) -> Given {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Given {
            trace: owned(Some(trace)),
            span: owned(Some(span)),
            sampled: owned(sampled),
            parent: owned(parent),
        }
    }

    #[test]
    fn the_single_header_is_taken_apart() {
        assert_eq!(Given::single("0").unwrap().sampled.as_deref(), Some("0"));
        assert_eq!(Given::single("a-b"), Some(given("a", "b", None, None)));
        assert_eq!(Given::single("a-b-1-c"), Some(given("a", "b", Some("1"), Some("c"))));
        assert_eq!(Given::single("abc"), None);
        let id = "80f198ee56343ba8";
        assert!(given(id, id, None, Some(id)).has_trace());
        for bad in [given("x", id, None, None), given(id, "0", None, None), given(id, id, None, Some("z"))] {
            assert!(!bad.has_trace(), "{bad:?}");
        }
        assert!(!Given::default().has_trace());
    }

    /// What the upstream is told, by name in the order of `NAMES`, and whether the request is refused.
    fn told(head: &str, ratio: f64) -> Result<[Option<String>; 5], u16> {
        const NAMES: [&str; 5] = ["x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "b3"];
        let registry = Registry::new(crate::all(), Map::new()).unwrap();
        let config = json!({"zipkin": {"endpoint": "http://127.0.0.1:1/", "sample_ratio": ratio}});
        let chain = testkit::chain(&registry, &config).unwrap();
        let bench = Bench::new(&format!("GET /\nHost: a\n{head}"));
        let mut exchange = bench.exchange();
        if let Flow::Reply(reply) = chain.rewrite[0].hook.rewrite(&mut exchange) {
            return Err(reply.status);
        }
        assert!(matches!(chain.access[0].hook.access(&mut exchange), Flow::Next));
        Ok(NAMES.map(|name| {
            exchange.request.header(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
        }))
    }

    #[test]
    fn the_upstream_continues_the_trace() {
        let id = "80f198ee56343ba8";
        let [trace, span, parent, sampled, single] =
            told(&format!("X-B3-TraceId: {id}\nX-B3-SpanId: {id}\nX-B3-Sampled: 0"), 1.0).unwrap();
        assert_eq!(
            (trace.as_deref(), parent.as_deref(), sampled.as_deref()),
            (Some(id), Some(id), Some("0"))
        );
        assert!(span.is_some_and(|span| span.len() == 16 && span != id) && single.is_none());
        let [trace, span, parent, sampled, single] = told(&format!("b3: {id}-{id}-d"), 0.00001).unwrap();
        assert_eq!((trace.as_deref(), sampled.as_deref(), single), (Some(id), Some("1"), None));
        assert!(parent.is_some_and(|parent| parent != id) && span.is_some());
        let [trace, _, parent, sampled, _] = told("X-B3-TraceId: no\nX-B3-ParentSpanId: x", 1.0).unwrap();
        assert!(
            trace.is_some_and(|trace| trace.len() == 32) && parent.is_some_and(|parent| parent.len() == 16)
        );
        assert_eq!(sampled.as_deref(), Some("1"));
        let [_, _, parent, sampled, _] =
            told("X-B3-TraceId: no\nX-B3-ParentSpanId: x\nX-B3-Sampled: false", 1.0).unwrap();
        assert_eq!((parent, sampled.as_deref()), (None, Some("0")));
        assert_eq!(told("b3: abc", 1.0), Err(400));
    }
}
