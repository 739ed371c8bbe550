//! `discovery_type: consul`: the healthy instances of a service, as one of several Consul servers (or clusters) knows
//! them. A long poll on the catalog and one on the health checks tell that something has changed; then everything is
//! asked for again.

mod catalog;
mod client;
mod dump;

use crate::config::ConsulConfig;
use crate::{Page, Service, Source};
use catalog::Catalog;
use client::{Client, Index};
use model::resource::Node;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// After a failure a server is asked again after this long, twice as long the next time.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// And never later than this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// After a poll that ended without a change, or whose server doesn't wait.
const POLL_PAUSE: Duration = Duration::from_millis(500);

/// How often whoever follows a service looks whether it is still wanted.
const WANTED_CHECK: Duration = Duration::from_secs(60);

/// What the servers know.
#[derive(Debug)]
pub(crate) struct Consul {
    config: ConsulConfig,
    /// By server.
    heard: watch::Sender<Vec<Heard>>,
    /// What the file has from the run before, for the time until a server answers.
    dumped: Catalog,
}

/// What a server has said so far.
#[derive(Debug, Clone, PartialEq)]
enum Heard {
    Nothing,
    /// That it can't be asked, and nothing before: who waits for it waits no longer.
    Failure,
    /// The last that it said, also while it can't be asked.
    Catalog(Catalog),
}

impl Heard {
    fn catalog(&self) -> Option<&Catalog> {
        match self {
            Self::Catalog(catalog) => Some(catalog),
            Self::Nothing | Self::Failure => None,
        }
    }
}

impl Consul {
    /// Starts to follow the servers, on the runtime that the caller is in.
    pub(crate) fn start(config: ConsulConfig) -> Arc<Self> {
        let dumped = config.dump.as_ref().filter(|dump| dump.load_on_init).and_then(dump::read);
        let heard = watch::Sender::new(vec![Heard::Nothing; config.servers.len()]);
        let consul = Arc::new(Self { config, heard, dumped: dumped.unwrap_or_default() });
        for number in 0..consul.config.servers.len() {
            tokio::spawn(Arc::clone(&consul).follow_server(number));
        }
        consul
    }

    async fn follow_server(self: Arc<Self>, number: usize) {
        let client = Client::new(&self.config.servers[number], &self.config);
        let changed = Arc::new(Notify::new());
        if self.config.keepalive {
            for path in ["catalog/services", "health/state/any"] {
                tokio::spawn(poll(client.clone(), path, Arc::clone(&changed)));
            }
        }
        let mut pause = RETRY_AFTER_MIN;
        loop {
            // What changes while this is asked ends the polls, and it is asked again.
            match catalog::fetch(&client, &self.config).await {
                Ok(catalog) => {
                    self.learned(number, catalog);
                    pause = RETRY_AFTER_MIN;
                    let interval = Duration::from_secs(self.config.fetch_interval);
                    match self.config.keepalive {
                        true => changed.notified().await,
                        false => tokio::time::sleep(interval).await,
                    }
                }
                Err(why) => {
                    tracing::error!(server = client.server(), "a Consul server can't be asked: {why}");
                    self.failed(number);
                    tokio::time::sleep(pause).await;
                    pause = RETRY_AFTER_MAX.min(pause * 2);
                }
            }
        }
    }

    fn learned(&self, number: usize, catalog: Catalog) {
        let changed = self.heard.send_if_modified(|heard| {
            let other = heard[number].catalog() != Some(&catalog);
            heard[number] = Heard::Catalog(catalog);
            other
        });
        if let Some(dump) = self.config.dump.as_ref().filter(|_| changed) {
            dump::write(dump, &self.services());
        }
    }

    fn failed(&self, number: usize) {
        self.heard.send_if_modified(|heard| {
            let first = heard[number] == Heard::Nothing;
            if first {
                heard[number] = Heard::Failure;
            }
            first
        });
    }

    /// All services that are known. A name should be known to one server alone; where it is not, the last one counts.
    fn services(&self) -> Catalog {
        let heard = self.heard.borrow();
        let all_answered = heard.iter().all(|heard| heard.catalog().is_some());
        let mut services = if all_answered { Catalog::default() } else { self.dumped.clone() };
        heard.iter().filter_map(Heard::catalog).for_each(|catalog| services.extend(catalog.clone()));
        services
    }

    /// The nodes of a service; `None` where nobody knows it, and a server that is being asked for the first time might.
    fn nodes(&self, name: &str) -> Option<Vec<Node>> {
        let heard = self.heard.borrow();
        let mut known = heard.iter().rev().filter_map(Heard::catalog).filter_map(|catalog| catalog.get(name));
        if let Some(nodes) = known.next() {
            return Some(nodes.clone());
        }
        let all_answered = heard.iter().all(|heard| heard.catalog().is_some());
        if let Some(nodes) = self.dumped.get(name).filter(|_| !all_answered) {
            return Some(nodes.clone());
        }
        let default = self.config.default_service.as_ref().map(|default| Node {
            host: default.host.clone(),
            port: Some(default.port),
            weight: self.config.weight,
            priority: 0,
        });
        let all_asked = heard.iter().all(|heard| *heard != Heard::Nothing);
        (all_asked || default.is_some()).then(|| default.into_iter().collect())
    }

    async fn keep_up(self: Arc<Self>, service: Weak<Service>) {
        let mut heard = self.heard.subscribe();
        while let Some(service) = service.upgrade() {
            heard.mark_unchanged();
            if let Some(nodes) = self.nodes(service.name()) {
                service.heard(nodes);
            }
            drop(service);
            // Nobody is asked for one service, so the end of one has to be looked for.
            let _ = tokio::time::timeout(WANTED_CHECK, heard.changed()).await;
        }
    }
}

impl Source for Consul {
    fn follow(self: Arc<Self>, service: Weak<Service>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.keep_up(service))
    }

    fn page(&self, page: &str) -> Option<Page> {
        match (page, &self.config.dump) {
            ("dump", _) => {
                let services = catalog::shown(&self.services());
                let body = json!({ "config": self.shown_config(), "services": services });
                Some(Page { status: 200, body: body.to_string() })
            }
            ("show_dump_file", None) => Some(Page { status: 503, body: "dump params is nil".to_owned() }),
            ("show_dump_file", Some(dump)) => {
                Some(match stdx::file::read_text(&dump.path, dump::DUMP_BYTES_MAX) {
                    Ok(body) => Page { status: 200, body },
                    Err(error) => Page { status: 503, body: format!("{}: {error}", dump.path.display()) },
                })
            }
            _ => None,
        }
    }
}

impl Consul {
    /// The configuration with its defaults; who may read this need not know the token.
    fn shown_config(&self) -> Value {
        let config = &self.config;
        let mut shown = config.written.clone();
        let timeout = config.timeout;
        let defaults = json!({
            "fetch_interval": config.fetch_interval,
            "keepalive": config.keepalive,
            "weight": config.weight,
            "timeout": { "connect": timeout.connect, "read": timeout.read, "wait": timeout.wait },
        });
        if let (Value::Object(shown), Value::Object(defaults)) = (&mut shown, defaults) {
            shown.extend(defaults);
            shown.remove("token");
        }
        shown
    }
}

/// Waits for changes of what `path` shows, and tells of each.
async fn poll(client: Client, path: &'static str, changed: Arc<Notify>) {
    let (mut index, mut pause) = (Index::default(), RETRY_AFTER_MIN);
    loop {
        match client.poll(path, index).await {
            Ok(next) if next == index => tokio::time::sleep(POLL_PAUSE).await,
            Ok(next) => {
                // One that went back is begun anew, as Consul asks of its clients.
                index = if next < index { Index::default() } else { next };
                pause = RETRY_AFTER_MIN;
                changed.notify_one();
            }
            // The fetch that follows says why, and goes on until it succeeds.
            Err(_) => {
                changed.notify_one();
                tokio::time::sleep(pause).await;
                pause = RETRY_AFTER_MAX.min(pause * 2);
            }
        }
    }
}

#[cfg(test)]
mod tests;
