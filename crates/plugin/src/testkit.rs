//! What a plugin's tests need: an exchange made from the text of a request, and services without a network.

mod services;

pub use services::{FakeServices, MadeCall};

use crate::{
    BodyFilters, BodyLimits, BodyVars, Chain, Client, ClientView, ConsumerInfo, Consumers, Exchange, Flow,
    Gateway, HeaderEdits, Identity, Ingredients, Parent, Registry, Reply, Request, RouteInfo, Services,
    Session, Step, StreamFlow, Surroundings, Transport, UpstreamResponse,
};
use model::{ConfigError, PluginMap};
use serde_json::Value;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use stdx::WorkerToken;
use wire::{RequestHead, RequestView, normalise_path};

/// Everything an exchange borrows from.
#[derive(Debug)]
pub struct Bench {
    head: RequestHead,
    bytes: Vec<u8>,
    client: Client,
    gateway: Gateway,
    worker: WorkerToken,
    route: RouteInfo,
    body: Option<Vec<u8>>,
    /// Who may be behind the request.
    pub consumers: Consumers,
    /// What hooks ask of their worker; no time passes in tests.
    pub services: Rc<FakeServices>,
    handle: Rc<dyn Services>,
}

impl Bench {
    /// A bench with one request: head lines separated by newlines, as `"GET /hello\nHost: a.com"`. The version and a
    /// missing `Host` are supplied.
    ///
    /// # Panics
    /// When the text is no valid request head: a mistake in the test.
    #[must_use]
    pub fn new(request: &str) -> Self {
        let (line, rest) = request.split_once('\n').unwrap_or((request, ""));
        let mut text = format!("{line} HTTP/1.1\r\n");
        if !rest.to_ascii_lowercase().contains("host:") {
            text.push_str("Host: localhost\r\n");
        }
        for field in rest.lines() {
            text.push_str(field);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        let mut head = RequestHead::default();
        assert_eq!(head.parse(text.as_bytes()), Ok(true), "a valid head");
        let services = Rc::<FakeServices>::default();
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            head,
            bytes: text.into_bytes(),
            client: Client::new(local(40_000), local(9080), 1),
            gateway: Gateway {
                hostname: "gateway".to_owned(),
                id: "an-id".to_owned(),
                pid: 1,
                seed: 1,
                real_ip_header: Some("X-Real-IP".to_owned()),
                https_port: Some(9443),
            },
            worker: WorkerToken::claim().expect("fewer tests than tokens"),
            route: RouteInfo { id: "1".to_owned(), ..RouteInfo::default() },
            body: None,
            consumers: Consumers::default(),
            handle: Rc::clone(&services) as Rc<dyn Services>,
            services,
        }
    }

    /// The same bench with another client address.
    ///
    /// # Panics
    /// When `ip` is no IP address.
    #[must_use]
    pub fn from_ip(mut self, ip: &str) -> Self {
        let ip = ip.parse().expect("an IP address");
        self.client = Client::new(SocketAddr::new(ip, 40_000), self.client.local, 1);
        self
    }

    /// The same bench, with a request's body that was read ahead. The head has to announce it.
    #[must_use]
    pub fn with_body(mut self, body: &str) -> Self {
        self.body = Some(body.as_bytes().to_vec());
        self
    }

    /// The same bench with another route.
    #[must_use]
    pub fn on_route(mut self, route: RouteInfo) -> Self {
        self.route = route;
        self
    }

    /// The exchange, its route chosen.
    ///
    /// # Panics
    /// When the request's path can't be normalised.
    #[must_use]
    pub fn exchange(&self) -> Exchange<'_> {
        let view = RequestView { head: &self.head, bytes: &self.bytes };
        let path = normalise_path(self.head.path.get(&self.bytes)).expect("a valid path");
        let mut request = Request::new(view, path, view.host());
        request.body = self.body.clone().map(|body| {
            let content_type = request.header(b"content-type");
            Box::new(BodyVars::new(content_type, Some(body), BodyLimits::default()))
        });
        let surroundings = Surroundings {
            gateway: &self.gateway,
            worker: &self.worker,
            services: &self.handle,
            consumers: &self.consumers,
            request_number: 1,
        };
        // Leaked: a test makes few exchanges.
        let reply_headers = Box::leak(Box::<HeaderEdits>::default());
        let mut exchange =
            Exchange::new(request, reply_headers, ClientView::Connected(&self.client), surroundings);
        exchange.route = Some(&self.route);
        exchange.matched_uri = "/*";
        exchange
    }
}

impl Bench {
    /// The same bench with a client that is not trusted in what it forwards; with `chain` not in `X-Forwarded-For` either.
    #[must_use]
    pub fn withdrawing(mut self, chain: bool) -> Self {
        self.head.withdraw_forwarded(chain);
        self
    }

    /// A session of a stream route, from the same client.
    #[must_use]
    pub fn session(&self) -> Session<'_> {
        let listener = self.client.local;
        let session = Session::new(&self.client, Transport::Tcp, listener, &self.gateway, &self.worker);
        Session { route: Some(&self.route), ..session }
    }
}

/// Compiles a `plugins` object as a route's chain would be.
///
/// # Errors
/// Every mistake in the configurations.
pub fn chain(registry: &Registry, plugins: &Value) -> Result<Chain, Vec<ConfigError>> {
    let empty = PluginMap::new();
    let plugins = plugins.as_object().unwrap_or(&empty);
    let parent = Parent { resource_key: "/routes/1", config_version: 1 };
    let compile = |(name, config): (&String, &Value)| {
        registry.compile_one(name, config, Ingredients::default(), parent)
    };
    Ok(Chain::new(plugins.iter().map(compile).collect::<Result<_, _>>()?))
}

/// Consumers by name, each with its `plugins` object, those of auth plugins compiled.
///
/// # Errors
/// Every mistake in the configurations.
pub fn consumers(registry: &Registry, all: &[(&str, Value)]) -> Result<Consumers, Vec<ConfigError>> {
    let mut consumers = Consumers::default();
    for (name, plugins) in all {
        let info = ConsumerInfo { name: (*name).to_owned(), ..ConsumerInfo::default() };
        let info = Arc::new(info);
        consumers.set(name, Some(Arc::clone(&info)));
        for (plugin, config) in plugins.as_object().into_iter().flatten() {
            let credential = registry.compile_credential(plugin, config)?;
            let key = format!("/consumers/{name}").into();
            consumers.add(Identity::new(Arc::clone(&info), None, key, credential));
        }
    }
    Ok(consumers)
}

/// Runs the phases before an upstream is asked: what a plugin answers, or `None` when the request would go on.
///
/// # Panics
/// When a hook waits for more than time to pass: its test needs a runtime.
pub fn request(chain: &Chain, exchange: &mut Exchange<'_>) -> Option<Reply> {
    phase(&chain.rewrite, exchange, |hook, x| hook.rewrite(x))
        .or_else(|| phase(&chain.access, exchange, |hook, x| hook.access(x)))
        .or_else(|| phase(&chain.before_proxy, exchange, |hook, x| hook.before_proxy(x)))
}

fn phase<H: ?Sized>(
    steps: &[Step<H>],
    exchange: &mut Exchange<'_>,
    run: impl Fn(&H, &mut Exchange<'_>) -> Flow,
) -> Option<Reply> {
    steps.iter().find_map(|step| {
        let mut flow = if step.admits(None, exchange) { run(&step.hook, exchange) } else { Flow::Next };
        while let Flow::Wait(mut future) = flow {
            flow = match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(resume) => resume(exchange),
                Poll::Pending => panic!("{} waits", step.def.name),
            };
        }
        match flow {
            Flow::Reply(reply) => Some(*reply),
            _ => None,
        }
    })
}

/// As [`request`]: the status of the answer, or 0 when the request would go to the upstream.
///
/// # Panics
/// As [`request`].
pub fn access(chain: &Chain, exchange: &mut Exchange<'_>) -> u16 {
    request(chain, exchange).map_or(0, |reply| reply.status)
}

/// Runs the preread phase of a session whose client has sent `bytes`: what the first hook says that lets it not go on at
/// once.
pub fn preread(chain: &Chain, session: &mut Session<'_>, bytes: &[u8]) -> StreamFlow {
    let mut flows = chain.preread.iter().map(|step| match &step.meta {
        Some(meta) if !meta.admits_session(session) => StreamFlow::Next,
        _ => step.hook.preread(session, bytes),
    });
    flows.find(|flow| *flow != StreamFlow::Next).unwrap_or(StreamFlow::Next)
}

/// Runs the response phase on an answer of the gateway's own, with this status.
pub fn response(chain: &Chain, exchange: &mut Exchange<'_>, status: u16) {
    exchange.status = status;
    for step in &chain.response {
        if step.admits(None, exchange) {
            step.hook.response(exchange, &UpstreamResponse::default());
        }
    }
}

/// Runs the response phase on `reply`: the body as it is sent.
///
/// # Panics
/// When a filter fails.
pub fn reply(chain: &Chain, exchange: &mut Exchange<'_>, reply: &Reply) -> Vec<u8> {
    exchange.status = reply.status;
    let made = UpstreamResponse { head: None, reply: Some(reply) };
    for step in &chain.response {
        if step.admits(None, exchange) {
            step.hook.response(exchange, &made);
        }
    }
    let filters = exchange.take_body_filters(&made).unwrap_or_default();
    whole(filters, exchange, reply.body.as_deref().unwrap_or_default()).expect("filters do their work")
}

/// Runs the log phase of an exchange that ended with `status`.
pub fn log(chain: &Chain, exchange: &mut Exchange<'_>, status: u16) {
    exchange.status = status;
    for step in &chain.log {
        if step.admits(None, exchange) {
            step.hook.log(exchange);
        }
    }
}

/// What becomes of `body` after [`response`].
///
/// # Panics
/// When a filter fails.
pub fn body(exchange: &mut Exchange<'_>, body: &[u8]) -> Vec<u8> {
    let filters = exchange.take_body_filters(&UpstreamResponse::default()).unwrap_or_default();
    whole(filters, exchange, body).expect("filters do their work")
}

/// What `filters`, none of which waits, make of `body`.
///
/// # Errors
/// A filter's.
///
/// # Panics
/// When a filter waits.
pub fn whole(filters: BodyFilters, exchange: &mut Exchange<'_>, body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut view = exchange.body_view();
    let polled = pin!(filters.whole(&mut view, body)).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(made) => made,
        Poll::Pending => panic!("a filter waits"),
    }
}

/// The head lines that `edits` would write.
#[must_use]
pub fn lines(edits: &HeaderEdits) -> String {
    let mut lines = Vec::new();
    edits.write(&mut lines);
    String::from_utf8_lossy(&lines).into_owned()
}
