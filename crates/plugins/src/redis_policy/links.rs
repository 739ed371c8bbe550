//! The connections of one worker, one to each server that it asks.

use super::endpoint::Endpoint;
use super::fault::Fault;
use super::link::Link;
use super::request::Request;
use plugin::{Services, UpstreamChoice, UpstreamCompiler};
use redis::Value;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Servers that one worker has connections to: a cluster has at most 1,000 nodes.
const SERVERS_MAX: usize = 4096;

/// The connections of one worker.
#[derive(Default)]
pub(super) struct Links(Mutex<HashMap<Arc<Endpoint>, Arc<Server>>>);

/// One server, and the connection to it.
struct Server {
    upstream: UpstreamChoice,
    /// Connections that were tried.
    tried: AtomicU64,
    /// Held while a connection is made, so that one is made for all who wait.
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// What the last attempt failed by.
    fault: Option<Fault>,
}

/// What it takes to ask servers from one worker.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) links: Arc<Links>,
    pub(super) services: Rc<dyn Services>,
    pub(super) compiler: UpstreamCompiler,
}

impl Asker {
    /// Asks one server. A script that it does not know is sent to it; a connection that turns out to be closed is replaced
    /// once.
    pub(super) async fn ask(
        &self,
        endpoint: &Arc<Endpoint>,
        request: &Request,
        asking: bool,
    ) -> Result<Value, Fault> {
        let server = self.server(endpoint)?;
        let (link, fresh) = server.link(endpoint, &self.services).await?;
        match ask(&link, request, asking).await {
            // Servers close connections that idle, and restart. A count may then be taken twice, never too seldom.
            Err(Fault::Closed(_)) if !fresh => {
                drop(link);
                let (link, _) = server.link(endpoint, &self.services).await?;
                ask(&link, request, asking).await
            }
            answer => answer,
        }
    }

    fn server(&self, endpoint: &Arc<Endpoint>) -> Result<Arc<Server>, Fault> {
        let mut servers = self.links.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(endpoint) {
            return Ok(Arc::clone(server));
        }
        // Those that nobody has a connection to any more are forgotten whenever one is added.
        servers.retain(|_, server| Arc::strong_count(server) > 1 || server.is_open());
        if servers.len() >= SERVERS_MAX {
            return Err(Fault::Unreachable("connections to too many Redis servers".to_owned()));
        }
        let invalid = |errors: Vec<model::ConfigError>| {
            let reasons: Vec<_> = errors.into_iter().map(|error| error.message).collect();
            Fault::Unreachable(format!("{}: {}", endpoint.address, reasons.join(", ")))
        };
        let upstream = self.compiler.compile(&endpoint.upstream()).map_err(invalid)?;
        let server =
            Arc::new(Server { upstream, tried: AtomicU64::new(0), state: tokio::sync::Mutex::default() });
        servers.insert(Arc::clone(endpoint), Arc::clone(&server));
        Ok(server)
    }
}

async fn ask(link: &Link, request: &Request, asking: bool) -> Result<Value, Fault> {
    match link.ask(&request.first(), asking).await {
        Err(fault) if fault.code() == "NOSCRIPT" => match request.with_text() {
            Some(command) => link.ask(&command, asking).await,
            None => Err(fault),
        },
        answer => answer,
    }
}

impl Server {
    fn is_open(&self) -> bool {
        // Held only while someone connects.
        self.state.try_lock().is_ok_and(|state| state.link.as_ref().is_some_and(|link| link.is_open()))
    }

    /// Returns the connection, and whether it was made for this caller.
    async fn link(
        &self,
        endpoint: &Endpoint,
        services: &Rc<dyn Services>,
    ) -> Result<(Arc<Link>, bool), Fault> {
        let tried = self.tried.load(Ordering::Acquire);
        let mut state = self.state.lock().await;
        if let Some(link) = state.link.as_ref().filter(|link| link.is_open()) {
            return Ok((Arc::clone(link), false));
        }
        state.link = None;
        // Whoever waited for an attempt of another has its outcome: else they would all try, one after the other.
        if tried != self.tried.load(Ordering::Acquire)
            && let Some(fault) = &state.fault
        {
            return Err(fault.clone());
        }
        let opening = Link::open(endpoint, &self.upstream, services);
        let opened = tokio::time::timeout(endpoint.access.timeouts.connect, opening).await;
        let opened = opened.unwrap_or(Err(Fault::Timeout("timed out while connecting to Redis")));
        self.tried.fetch_add(1, Ordering::Release);
        match opened {
            Ok(link) => {
                let link = Arc::new(link);
                (state.link, state.fault) = (Some(Arc::clone(&link)), None);
                Ok((link, true))
            }
            Err(fault) => {
                state.fault = Some(fault.clone());
                Err(fault)
            }
        }
    }
}
