//! Mirrors requests to another server and ignores its responses.
//!
//! ## When to use
//! Use it to test a new version of a service, or to feed an analysis, with production traffic. The copy has the
//! request's method, header fields and body. The mirror never delays clients, even if it is slow, down or responds
//! with errors.
//!
//! ## Example
//! ```json
//! {
//!     "proxy-mirror": {
//!         "host": "http://127.0.0.1:8081",
//!         "path": "/v2",
//!         "path_concat_mode": "prefix",
//!         "sample_ratio": 0.1
//!     }
//! }
//! ```
//! `plugin_attr.proxy-mirror.timeout` in `config.yaml` sets the timeouts `connect`, `send` and `read`, 60s each by default.
//! Requests that plugins reject are not copied. The body is read before the request is forwarded. As in APISIX, bidirectional
//! gRPC streams therefore do not work on such a route.
//!
//! ## Differences from APISIX
//! - A request with a body of more than 8 MiB is not copied. A worker sends at most 512 copies at a time, with 64 MiB of
//!   bodies in total; further requests are not copied, and the error log reports it.
//! - The path is percent-encoded as the client sent it, not decoded.
//! - `Host` is the client's, or the one that a plugin set; `pass_host` of the upstream has no effect.
//! - A `host` with an invalid port is rejected.

use crate::random::Random;
use crate::request_copy;
use bytes::Bytes;
use model::ConfigError;
use plugin::{
    Answer, CallBody, CallError, CallTimeouts, CompileContext, Endpoint, EndpointOptions, Exchange, Flow,
    LocalFuture, OnBeforeProxy, Plugin, PluginDef, WholeBody,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cell::Cell;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ProxyMirror>("proxy-mirror", 1010).on_before_proxy().build()
}

/// Bytes of a body that is copied. Requests of APIs are far below it; it bounds what is read ahead of the upstream.
const BODY_MAX: usize = 8 << 20;

/// Copies that a worker has under way. At 60 s for a mirror that doesn't answer this is 8 requests a second.
const COPIES_MAX: usize = 512;

/// Bytes of bodies that these hold: eight of the largest.
const COPIED_BYTES_MAX: usize = 64 << 20;

/// Bytes of a mirror's answer that are read so that its connection can be used again. Of a longer one it is closed.
const ANSWER_MAX: usize = 256 * 1024;

/// What a step of a copy may take where the file doesn't say: APISIX's.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest that a step may take, whatever the file says.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// How often the steps of a copy may use up their time before it is given up: connect, send, read the head and the body.
const STEPS: u32 = 4;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    host: String,
    path: Option<String>,
    path_concat_mode: String,
    sample_ratio: f64,
}

/// The compiled form.
pub struct ProxyMirror {
    endpoint: Endpoint,
    grpc: bool,
    path: Option<String>,
    prefix: bool,
    sample_ratio: f64,
    timeouts: CallTimeouts,
    random: Arc<Random>,
}

impl Plugin for ProxyMirror {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        // As nginx's `proxy_pass`, which doesn't look at certificates.
        let options = EndpointOptions { ssl_verify: false, ..EndpointOptions::default() };
        let under = |found: Vec<ConfigError>| -> Vec<_> {
            found.into_iter().map(|error| error.under("/host")).collect()
        };
        let endpoint = cx.endpoint_of(&["http", "https", "grpc", "grpcs"], &config.host, options);
        Ok(Self {
            endpoint: endpoint.map_err(under)?,
            grpc: config.host.starts_with("grpc"),
            path: config.path,
            prefix: config.path_concat_mode == "prefix",
            sample_ratio: config.sample_ratio,
            timeouts: timeouts(cx.attributes)?,
            random: cx.shared.get(),
        })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "host": {
                    "description": "The mirror: scheme, host and port, without a path.",
                    "type": "string",
                    "pattern": r"^(http(s)?|grpc(s)?):\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?$"
                },
                "path": {
                    "description": "The path of the copies; where there is none, the request's. Not for gRPC.",
                    "type": "string",
                    "pattern": "^/[^?&]+$"
                },
                "path_concat_mode": {
                    "description": "Whether `path` takes the place of the request's path, or stands before it.",
                    "type": "string",
                    "default": "replace",
                    "enum": ["replace", "prefix"]
                },
                "sample_ratio": {
                    "description": "The part of the requests that is copied.",
                    "type": "number",
                    "minimum": 0.00001,
                    "maximum": 1,
                    "default": 1
                }
            },
            "required": ["host"]
        })
    }
}

/// Marks an exchange that is to be copied once its body is read.
struct AwaitsBody;

impl OnBeforeProxy for ProxyMirror {
    fn before_proxy(&self, exchange: &mut Exchange<'_>) -> Flow {
        let extensions = exchange.extras.as_mut().map(|extras| &mut extras.extensions);
        let awaited = extensions.and_then(|extensions| extensions.remove::<AwaitsBody>()).is_some();
        if !awaited && !self.is_drawn(exchange) {
            return Flow::Next;
        }
        match exchange.request.whole_body(BODY_MAX) {
            WholeBody::Whole(body) => {
                let body = Bytes::copy_from_slice(body);
                self.send(body, exchange);
            }
            WholeBody::Unread if !awaited && UnderWay::begin(0).is_some() => {
                exchange.extensions().insert(AwaitsBody);
                return Flow::Body(BODY_MAX);
            }
            WholeBody::Unread => self.skip("the worker has as many copies under way as it allows"),
            WholeBody::TooLong => self.skip("its body is too large"),
        }
        Flow::Next
    }
}

impl ProxyMirror {
    /// Whether chance takes this request.
    fn is_drawn(&self, exchange: &Exchange<'_>) -> bool {
        self.sample_ratio >= 1.0
            || f64::from(self.random.below(u32::MAX, exchange)) < self.sample_ratio * f64::from(u32::MAX)
    }

    fn skip(&self, why: &str) {
        tracing::warn!(host = self.endpoint.authority, "proxy-mirror: request not mirrored: {why}");
    }

    /// Sends the copy on a task of its own.
    fn send(&self, body: Bytes, exchange: &Exchange<'_>) {
        let Some(under_way) = UnderWay::begin(body.len()) else {
            return self.skip("the worker has as many copies under way as it allows");
        };
        let authority = self.endpoint.authority.clone();
        let mut call = match request_copy::head(exchange, &authority, self.target(exchange), self.timeouts) {
            Ok(call) => call,
            Err(error) => return self.skip(error.0),
        };
        if self.grpc {
            // gRPC's servers ask for it.
            call.headers.set("TE", "trailers");
        }
        if !body.is_empty() {
            call.body = CallBody::Bytes(body);
        }
        let CallTimeouts { connect, send, read } = self.timeouts;
        let end = exchange.sleep((connect + send + read).saturating_mul(STEPS));
        let (services, to) = (Rc::clone(exchange.services), self.endpoint.upstream.clone());
        let task = async move {
            match before(end, deliver(services.call(&to, call))).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::warn!(host = authority, %error, "proxy-mirror: mirrored request failed");
                }
                None => tracing::warn!(host = authority, "proxy-mirror: mirrored request timed out"),
            }
            drop(under_way);
        };
        exchange.services.spawn(Box::pin(task)).detach();
    }

    /// The copy's path and query. The path is the client's unless the configuration names one; what later plugins make
    /// of it is for the upstream, but for gRPC.
    fn target(&self, exchange: &Exchange<'_>) -> Vec<u8> {
        let request = &exchange.request;
        if self.grpc {
            let edited = request.edits.as_ref().and_then(|edits| edits.target.as_deref());
            return edited.unwrap_or_else(|| request.target()).to_vec();
        }
        let own = request.target().split(|byte| *byte == b'?').next().unwrap_or_default();
        let (path, rest) = match &self.path {
            Some(path) if self.prefix => (path.as_bytes(), own),
            Some(path) => (path.as_bytes(), &b""[..]),
            None => (own, &b""[..]),
        };
        let mut target = [path, rest].concat();
        if !request.query().is_empty() {
            target.push(b'?');
            target.extend_from_slice(request.query());
        }
        target
    }
}

/// Sends a copy and throws the answer away. A short one is read to its end, so that its connection can be used again.
async fn deliver(call: LocalFuture<Result<Answer, CallError>>) -> Result<(), CallError> {
    let mut answer = call.await?;
    let mut read = 0;
    while let Some(piece) = answer.next().await {
        // What becomes of an answer that nobody wants is no failure of the copy.
        read += piece.map_or(ANSWER_MAX, |piece| piece.len());
        if read >= ANSWER_MAX {
            break;
        }
    }
    Ok(())
}

/// What `work` comes to, unless `end` comes first.
async fn before<T>(mut end: LocalFuture<()>, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => end.as_mut().poll(cx).map(|()| None),
    })
    .await
}

thread_local! {
    /// The copies under way on this thread and the bytes of their bodies. A worker is a thread.
    static COPIES: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// One copy under way, counted until it is dropped.
struct UnderWay {
    bytes: usize,
    /// Of one thread: it counts there.
    of_thread: PhantomData<Rc<()>>,
}

impl UnderWay {
    /// Counts a copy with a body of so many bytes; `None` where the worker has no room for it.
    fn begin(bytes: usize) -> Option<Self> {
        let (copies, all) = COPIES.get();
        if copies >= COPIES_MAX || all + bytes > COPIED_BYTES_MAX {
            return None;
        }
        COPIES.set((copies + 1, all + bytes));
        Some(Self { bytes, of_thread: PhantomData })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let (copies, all) = COPIES.get();
        COPIES.set((copies.saturating_sub(1), all.saturating_sub(self.bytes)));
    }
}

/// The file's `plugin_attr.proxy-mirror.timeout`.
fn timeouts(attributes: Option<&Value>) -> Result<CallTimeouts, Vec<ConfigError>> {
    let of = |step: &str| {
        let written = attributes.and_then(|attributes| attributes.pointer(&format!("/timeout/{step}")));
        let time = written.map_or(Some(TIMEOUT), time);
        let message =
            || format!("plugin_attr.proxy-mirror.timeout.{step} must be a time such as 60s or 500ms");
        time.ok_or_else(|| vec![ConfigError::new("", message())])
    };
    Ok(CallTimeouts { connect: of("connect")?, send: of("send")?, read: of("read")? })
}

/// A time in nginx's notation, of one unit; a number alone counts seconds.
fn time(written: &Value) -> Option<Duration> {
    if let Some(seconds) = written.as_u64() {
        return Some(Duration::from_secs(seconds).min(TIMEOUT_MAX));
    }
    let text = written.as_str()?.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit_ms = match text[digits..].trim() {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(unit_ms).map(|ms| Duration::from_millis(ms).min(TIMEOUT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench, MadeCall};

    fn registry(attributes: &Value) -> Registry {
        let attributes = json!({ "proxy-mirror": attributes });
        let plugins = [def(), crate::proxy_rewrite::def(), crate::basic_auth::def()];
        Registry::new(plugins, attributes.as_object().cloned().expect("an object")).expect("valid schemas")
    }

    fn chain(config: &Value) -> plugin::Chain {
        testkit::chain(&registry(&json!({})), &json!({ "proxy-mirror": config }))
            .expect("a valid configuration")
    }

    /// The copy of `bench`'s request.
    fn copy(config: &Value, bench: &Bench) -> Option<MadeCall> {
        bench.services.answer(200, &[], "ignored");
        assert_eq!(testkit::access(&chain(config), &mut bench.exchange()), 0);
        bench.services.calls().pop()
    }

    #[test]
    fn the_copy_goes_where_the_configuration_says() {
        let host = "http://m.test:81";
        let (plain, grpc) = ("X-A: 1\r\n", "X-A: 1\r\nTE: trailers\r\n");
        for (config, target, lines) in [
            (json!({"host": host}), "/a%20b?x=1", plain),
            (json!({"host": host, "path": "/v2"}), "/v2?x=1", plain),
            (json!({"host": host, "path": "/v2", "path_concat_mode": "prefix"}), "/v2/a%20b?x=1", plain),
            (json!({"host": "grpc://m.test", "path": "/v2"}), "/a%20b?x=1", grpc),
        ] {
            let bench = Bench::new("GET /a%20b?x=1\nHost: a.com\nX-A: 1");
            let call = copy(&config, &bench).expect("a copy");
            assert_eq!((call.method.as_str(), call.target.as_str()), ("GET", target), "{config}");
            assert_eq!((call.authority.as_str(), call.headers.as_str()), ("a.com", lines), "{config}");
        }
    }

    #[test]
    fn later_changes_of_the_path_are_for_the_upstream() {
        let plugins = json!({
            "proxy-mirror": {"host": "http://m.test"},
            "proxy-rewrite": {"uri": "/other", "headers": {"X-New": "1"}}
        });
        let chain = testkit::chain(&registry(&json!({})), &plugins).expect("valid");
        let bench = Bench::new("GET /a");
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
        let call = bench.services.calls().pop().expect("a copy");
        assert_eq!((call.target.as_str(), call.headers.as_str()), ("/a", "X-New: 1\r\n"));
    }

    #[test]
    fn bodies_are_copied_up_to_a_limit() {
        let config = json!({"host": "http://m.test"});
        let bench = Bench::new("POST /\nContent-Length: 5").with_body("hello");
        assert_eq!(copy(&config, &bench).expect("a copy").body, b"hello");
        let bench = Bench::new(&format!("POST /\nContent-Length: {}", BODY_MAX + 1));
        assert_eq!(copy(&config, &bench), None, "too large");
        let bench = Bench::new("POST /\nContent-Length: 5");
        let flow = chain(&config).before_proxy[0].hook.before_proxy(&mut bench.exchange());
        assert!(matches!(flow, Flow::Body(BODY_MAX)), "{flow:?}");
    }

    #[test]
    fn a_mirror_that_fails_changes_nothing_for_the_client() {
        let config = json!({"host": "http://m.test"});
        for kind in [plugin::CallErrorKind::Timeout, plugin::CallErrorKind::Protocol] {
            let bench = Bench::new("GET /");
            bench.services.fail(kind);
            assert_eq!(testkit::access(&chain(&config), &mut bench.exchange()), 0, "{kind:?}");
        }
        assert_eq!(COPIES.get(), (0, 0), "all are over");
    }

    #[test]
    fn requests_that_plugins_refuse_are_not_copied() {
        let plugins = json!({"proxy-mirror": {"host": "http://m.test"}, "basic-auth": {}});
        let chain = testkit::chain(&registry(&json!({})), &plugins).expect("valid");
        let bench = Bench::new("GET /");
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 401);
        assert_eq!(bench.services.calls(), []);
    }

    #[test]
    fn a_sample_is_about_as_large_as_configured() {
        let chain = chain(&json!({"host": "http://m.test", "sample_ratio": 0.25}));
        let bench = Bench::new("GET /");
        (0..4000).for_each(|_| assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0));
        let copies = bench.services.calls().len();
        assert!((800..1200).contains(&copies), "{copies} of 4000");
    }

    #[test]
    fn copies_under_way_are_bounded_in_number_and_bytes() {
        let mut held: Vec<_> = (0..COPIES_MAX).map_while(|_| UnderWay::begin(0)).collect();
        assert_eq!((held.len(), UnderWay::begin(0).is_none()), (COPIES_MAX, true));
        held.clear();
        held.extend((0..8).map_while(|_| UnderWay::begin(BODY_MAX)));
        assert_eq!((held.len(), UnderWay::begin(1).is_none(), UnderWay::begin(0).is_some()), (8, true, true));
        drop(held);
        assert_eq!(COPIES.get(), (0, 0));
    }

    #[test]
    fn times_are_the_files() {
        let compile = |attributes: &Value| {
            testkit::chain(&registry(attributes), &json!({"proxy-mirror": {"host": "http://m.test"}}))
        };
        assert!(compile(&json!({"timeout": {"connect": "2000ms", "read": "1m", "send": 3}})).is_ok());
        for wrong in [json!("soon"), json!("5x"), json!(-1), json!("")] {
            assert!(compile(&json!({"timeout": {"read": wrong}})).is_err(), "{wrong}");
        }
        let times = timeouts(Some(&json!({"timeout": {"connect": "2000ms", "read": "1m"}}))).expect("valid");
        assert_eq!((times.connect, times.read, times.send), (Duration::from_secs(2), TIMEOUT, TIMEOUT));
    }

    #[test]
    fn what_is_no_mirror_is_refused() {
        for config in [
            json!({}),
            json!({"host": "m.test"}),
            json!({"host": "http://m.test/path"}),
            json!({"host": "ftp://m.test"}),
            json!({"host": "http://m.test:70000"}),
            json!({"host": "http://m.test", "path": "no-slash"}),
            json!({"host": "http://m.test", "path": "/a?b"}),
            json!({"host": "http://m.test", "path_concat_mode": "suffix"}),
            json!({"host": "http://m.test", "sample_ratio": 0}),
            json!({"host": "http://m.test", "sample_ratio": 1.1}),
        ] {
            let found = testkit::chain(&registry(&json!({})), &json!({ "proxy-mirror": config }));
            assert!(found.is_err(), "{config}");
        }
    }
}
