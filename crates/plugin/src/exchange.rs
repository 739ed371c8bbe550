//! One request and its response, on their way through the gateway.

use crate::{
    BodyFilters, ClientView, Coding, ConsumerInfo, Consumers, ExchangeLimits, Extensions, Gateway,
    HeaderEdits, Identity, KeptResponse, Request, Services, Stored, UpstreamChoice, UpstreamResponse,
    Verdict,
};
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Moment, WorkerToken};

/// What hooks see of a request and its response. Lives as long as the request.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The client's request.
    pub request: Request<'a>,
    /// Fields that the response will carry besides the upstream's, whoever makes the response. Borrowed: their buffers
    /// serve one exchange after the other, and moving them in and out costs 60 instructions.
    pub reply_headers: &'a mut HeaderEdits,
    /// The connection it came by.
    pub client: ClientView<'a>,
    /// The process it runs in.
    pub gateway: &'a Gateway,
    /// The worker it runs on: the key to per-worker state.
    pub worker: &'a WorkerToken,
    /// What the worker does for plugins: calls, connections, time. Cloned into the futures of hooks that wait.
    pub services: &'a Rc<dyn Services>,
    /// The route that matched; `None` before the choice and where none matches.
    pub route: Option<&'a RouteInfo>,
    /// The path pattern that matched: `/hello/*`.
    pub matched_uri: &'a str,
    /// The host pattern that matched; empty where the route names no host.
    pub matched_host: &'a str,
    /// The consumers there are: who may be behind a request.
    pub consumers: &'a Consumers,
    /// The authenticated consumer; set by [`Exchange::attach`].
    pub consumer: Option<&'a ConsumerInfo>,
    /// Whether that is the consumer of clients that showed no valid credential.
    pub anonymous: bool,
    /// The engine's: the [`crate::Chain`] that took over from the route's when the consumer's plugins were merged in.
    pub merged: Option<Rc<dyn Any>>,
    /// The upstream's part so far.
    pub upstream: UpstreamTrace,
    /// Times and sizes.
    pub timing: Timing,
    /// The response's status; 0 until there is one.
    pub status: u16,
    /// Who made the response.
    pub source: ResponseSource,
    /// Variables that plugins set for this request: `(name, value)`.
    pub vars: Vec<(String, Vec<u8>)>,
    /// What few requests need; allocated when the first plugin asks.
    pub extras: Option<Box<Extras>>,
}

/// What an exchange borrows from the process and the worker that serve it.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The process.
    pub gateway: &'a Gateway,
    /// The worker: the key to per-worker state.
    pub worker: &'a WorkerToken,
    /// What the worker does for plugins.
    pub services: &'a Rc<dyn Services>,
    /// The consumers of the snapshot that the request is served by.
    pub consumers: &'a Consumers,
    /// Number of the request on its connection, from 1.
    pub request_number: u64,
}

impl<'a> Exchange<'a> {
    /// An exchange that begins now, and of which nothing is known but its request. `reply_headers` is empty; it may have
    /// been used before. Inlined, so that an exchange is made where it stays: it is too large to be moved for nothing.
    #[must_use]
    #[inline(always)]
    pub fn new(
        request: Request<'a>,
        reply_headers: &'a mut HeaderEdits,
        client: ClientView<'a>,
        surroundings: Surroundings<'a>,
    ) -> Self {
        let Surroundings { gateway, worker, services, consumers, request_number } = surroundings;
        let started = Moment::now();
        let timing = Timing {
            started,
            total: Duration::ZERO,
            request_bytes: request.view.head.length as u64,
            sent_bytes: 0,
            sent_body_bytes: 0,
            request_number,
        };
        Self {
            request,
            reply_headers,
            client,
            gateway,
            worker,
            services,
            route: None,
            matched_uri: "",
            matched_host: "",
            consumers,
            consumer: None,
            anonymous: false,
            merged: None,
            upstream: UpstreamTrace::new(started),
            timing,
            status: 0,
            source: ResponseSource::Apisix,
            vars: Vec::new(),
            extras: None,
        }
    }

    /// The consumer behind the request is known: `identity`'s. The upstream is told who it is, as by APISIX; what the
    /// client said in these fields is dropped.
    pub fn attach(&mut self, identity: &'a Identity) {
        self.attach_consumer(&identity.consumer, identity.credential_id.as_deref());
    }

    /// The request is served as the consumer called `name`, who showed no credential; whether there is such a consumer.
    pub fn attach_anonymous(&mut self, name: &str) -> bool {
        let consumers = self.consumers;
        let found = consumers.named(name);
        if let Some(consumer) = found {
            self.attach_consumer(consumer, None);
            self.anonymous = true;
        }
        found.is_some()
    }

    fn attach_consumer(&mut self, consumer: &'a ConsumerInfo, credential_id: Option<&str>) {
        self.consumer = Some(consumer);
        self.anonymous = false;
        let headers = &mut self.request.edit().headers;
        headers.set("X-Consumer-Username", &consumer.name);
        let custom_id = consumer.labels.get("custom_id").map(String::as_str);
        for (name, value) in [("X-Credential-Identifier", credential_id), ("X-Consumer-Custom-ID", custom_id)]
        {
            match value {
                Some(value) => headers.set(name, value),
                None => headers.remove(name),
            }
        }
    }

    /// What few requests need, made now if there is nothing yet.
    pub fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

impl Exchange<'_> {
    /// The values that plugins share, to be changed.
    pub fn extensions(&mut self) -> &mut Extensions {
        &mut self.extras().extensions
    }

    /// The shared value of type `T`.
    #[must_use]
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.extras.as_ref()?.extensions.get()
    }
}

/// What plugins ask for beyond header fields, and what they note for their later phases.
#[derive(Default)]
pub struct Extras {
    /// Where the request goes instead of the route's upstream.
    pub upstream: Option<UpstreamChoice>,
    /// The response to be sent instead of asking an upstream.
    pub kept: Option<KeptResponse>,
    /// Who is told what the upstream answers.
    pub keeper: Option<Box<dyn Keeper>>,
    /// What holds for the exchange in place of the configuration's limits.
    pub limits: ExchangeLimits,
    /// What the response's body passes on its way to the client. Filled in the response phase.
    pub body_filters: BodyFilters,
    /// What the request's body passes on its way to the upstream. Filled before the upstream is asked; a request without
    /// a body, and one that no upstream is asked for, pass nothing.
    pub request_filters: BodyFilters,
    /// The content coding that the body is to be sent in: see [`Exchange::offer`].
    pub(crate) coding: Option<Coding>,
    /// What the filters of `_meta` said, by the place of that.
    admitted: Vec<(usize, bool)>,
    /// The plugins that don't run any more, because they ran inside others.
    pub(crate) skipped: Vec<Arc<str>>,
    /// What plugins share.
    pub extensions: Extensions,
    /// Notes by the place of the plugin that made them.
    notes: Vec<(usize, Box<dyn Any>)>,
}

impl Extras {
    /// Notes `note` for the later phases of `plugin`, in place of an earlier one.
    pub fn note<P, N: 'static>(&mut self, plugin: &P, note: N) {
        let place = std::ptr::from_ref(plugin).addr();
        self.notes.retain(|(of, _)| *of != place);
        self.notes.push((place, Box::new(note)));
    }

    /// What `plugin` noted.
    pub fn noted<P, N: 'static>(&self, plugin: &P) -> Option<&N> {
        let place = std::ptr::from_ref(plugin).addr();
        self.notes.iter().find(|(of, _)| *of == place)?.1.downcast_ref()
    }

    pub(crate) fn admitted(&self, place: usize) -> Option<bool> {
        self.admitted.iter().find(|(of, _)| *of == place).map(|(_, admitted)| *admitted)
    }

    pub(crate) fn admit(&mut self, place: usize, admitted: bool) {
        self.admitted.push((place, admitted));
    }
}

impl std::fmt::Debug for Extras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extras").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

/// Is told what became of asking the upstream; of one that is neither told nor asked any more the exchange is over.
pub trait Keeper {
    /// The upstream answered with this head; `exchange` has its status. Comes before the response hooks.
    fn answered(&mut self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) -> Verdict;

    /// The upstream gave no usable answer: what the client gets instead of an error.
    fn failed(&mut self, exchange: &mut Exchange<'_>) -> Option<KeptResponse>;
}

/// What hooks may know of the route.
#[derive(Debug, Clone, Default)]
pub struct RouteInfo {
    /// Names this compiled form of the route: no other has it in the life of the process. 0 where nobody gave one.
    pub serial: u64,
    /// Its id.
    pub id: String,
    /// Its name; empty where it has none.
    pub name: String,
    /// Its service's id; empty where it belongs to none.
    pub service_id: String,
    /// Its service's name; empty where there is none.
    pub service_name: String,
    /// The route as the store holds it.
    pub stored: Stored,
    /// Its service as the store holds it.
    pub service_stored: Stored,
}

/// What is known of the upstream's part.
#[derive(Debug)]
pub struct UpstreamTrace {
    /// When the upstream's part began: with the request, or when the last plugin that waited was done.
    pub started: Moment,
    /// The node asked last, address and port as text. Shared on one worker only, so counting it is no atomic.
    pub addr: Option<Rc<str>>,
    /// The node's address: `$balancer_ip`; the part of `addr` before the port.
    pub ip_len: usize,
    /// The node as configured, by name or address, with its port unless that is the scheme's own.
    pub node: Option<Rc<str>>,
    /// The status it answered with; 0 where it has not.
    pub status: u16,
    /// Whether it ended the connection within its response.
    pub broke_off: bool,
    /// From sending the request to the response's last byte; `None` where no upstream was asked.
    pub time: Option<Duration>,
    /// `http`, `https` ...; empty before one is asked.
    pub scheme: &'static str,
    /// The `Host` it was asked for, where it differs from the client's.
    pub host: Option<Rc<str>>,
}

impl UpstreamTrace {
    /// The trace of a request that began at `started` and for which no node was asked yet.
    #[must_use]
    pub fn new(started: Moment) -> Self {
        Self {
            started,
            addr: None,
            ip_len: 0,
            node: None,
            status: 0,
            broke_off: false,
            time: None,
            scheme: "",
            host: None,
        }
    }

    /// The node's address and port; empty before one is asked.
    #[must_use]
    pub fn addr(&self) -> &str {
        self.addr.as_deref().unwrap_or_default()
    }

    /// The node's host as configured, a name or an address: `$upstream_unresolved_host`; empty before one is asked.
    #[must_use]
    pub fn node_host(&self) -> &str {
        let authority = self.node.as_deref().unwrap_or_default();
        wire::host_of(authority.as_bytes()).and_then(|host| authority.get(..host.len())).unwrap_or(authority)
    }

    /// The node's address without its port: what APISIX calls `balancer_ip`.
    #[must_use]
    pub fn ip(&self) -> &str {
        self.addr().get(..self.ip_len).unwrap_or_default()
    }
}

/// Times and sizes of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// When the head was complete.
    pub started: Moment,
    /// From then to the response's last byte; zero before the log phase.
    pub total: Duration,
    /// Bytes of the request, head and body.
    pub request_bytes: u64,
    /// Bytes sent to the client, head and body.
    pub sent_bytes: u64,
    /// Bytes of the response's body sent.
    pub sent_body_bytes: u64,
    /// Number of the request on its connection, from 1.
    pub request_number: u64,
}

/// Who made a response: the `response_source` label of APISIX's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ResponseSource {
    /// The gateway itself: plugins, 404, refusals.
    #[default]
    Apisix,
    /// The proxy module, because no usable response came: 502, 504 and the like.
    Nginx,
    /// The upstream.
    Upstream,
}

impl ResponseSource {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apisix => "apisix",
            Self::Nginx => "nginx",
            Self::Upstream => "upstream",
        }
    }
}
