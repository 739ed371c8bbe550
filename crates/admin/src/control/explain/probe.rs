//! The request that is asked about, put together as the data plane would have received it.

use plugin::{
    BodyLimits, BodyVars, Client, ClientView, Exchange, Gateway, HeaderEdits, PathRules, Request, Services,
    Surroundings, Unavailable,
};
use serde::Deserialize;
use snapshot::Snapshot;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use stdx::WorkerToken;
use wire::{RequestHead, RequestView};

/// What of the configuration file decides how a request is understood.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setting {
    /// What becomes of its path.
    pub paths: PathRules,
    /// How much of its body conditions look at.
    pub body: BodyLimits,
}

/// The question, as the client puts it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    #[serde(default = "get")]
    method: String,
    /// Path and query.
    uri: String,
    host: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    remote_addr: Option<IpAddr>,
    body: Option<String>,
    /// Who the client is, once authenticated.
    pub(super) consumer: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Several(Vec<String>),
}

/// Everything an exchange borrows from.
#[derive(Debug)]
pub(super) struct Probe {
    head: RequestHead,
    bytes: Vec<u8>,
    path: Vec<u8>,
    route_path: Option<Vec<u8>>,
    body: Option<Vec<u8>>,
    client: Client,
    gateway: Gateway,
    worker: Option<WorkerToken>,
    /// None: plugins are only looked at.
    services: Rc<dyn Services>,
    setting: Setting,
}

fn get() -> String {
    "GET".to_owned()
}

impl Question {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| format!("invalid question: {error}"))
    }
}

impl Probe {
    /// # Errors
    /// When what is asked about is no request that the gateway would look at.
    pub(super) fn new(question: &Question, setting: Setting) -> Result<Self, String> {
        let named_host = question.headers.keys().any(|name| name.eq_ignore_ascii_case("host"));
        let mut text = format!("{} {} HTTP/1.1\r\n", question.method, question.uri);
        let mut add = |name: &str, value: &str| text.push_str(&format!("{name}: {value}\r\n"));
        match &question.host {
            Some(host) => add("Host", host),
            None if named_host => {}
            None => add("Host", "localhost"),
        }
        for (name, values) in &question.headers {
            // The field `host` stands above one among the headers.
            if question.host.is_some() && name.eq_ignore_ascii_case("host") {
                continue;
            }
            match values {
                Values::One(value) => add(name, value),
                Values::Several(values) => values.iter().for_each(|value| add(name, value)),
            }
        }
        text.push_str("\r\n");
        let bytes = text.into_bytes();
        let mut head = RequestHead::default();
        match head.parse(&bytes) {
            Ok(true) if head.length == bytes.len() => {}
            Ok(_) => return Err("not one whole request head".to_owned()),
            Err(error) => return Err(format!("refused with {}: {}", error.status(), error.reason())),
        }
        let view = RequestView { head: &head, bytes: &bytes };
        let (path, route_path) = setting.paths.apply(head.path.get(&bytes), view.normal_path());
        let path = path.ok_or("refused with 400: the path can't be normalised")?.into_owned();
        let ip = question.remote_addr.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9080);
        let client = Client::new(SocketAddr::new(ip, 0), local, 0);
        let body = question.body.clone().map(String::into_bytes);
        let gateway = Gateway { pid: std::process::id(), ..Gateway::default() };
        Ok(Self {
            head,
            bytes,
            path,
            route_path,
            body,
            client,
            gateway,
            worker: WorkerToken::claim(),
            services: Rc::new(Unavailable),
            setting,
        })
    }

    /// # Errors
    /// When all places for workers are taken.
    pub(super) fn exchange<'e>(
        &'e self,
        snapshot: &'e Snapshot,
        reply_headers: &'e mut HeaderEdits,
    ) -> Result<Exchange<'e>, String> {
        let view = RequestView { head: &self.head, bytes: &self.bytes };
        let mut request = Request::new(view, Cow::Borrowed(&self.path), view.host());
        self.route_path.iter().for_each(|path| request.set_route_path(path.clone()));
        let body = BodyVars::new(request.header(b"content-type"), self.body.clone(), self.setting.body);
        request.body = Some(Box::new(body));
        let surroundings = Surroundings {
            gateway: &self.gateway,
            worker: self.worker.as_ref().ok_or("too many workers to explain beside them")?,
            services: &self.services,
            consumers: &snapshot.consumers,
            request_number: 1,
        };
        Ok(Exchange::new(request, reply_headers, ClientView::Connected(&self.client), surroundings))
    }
}
