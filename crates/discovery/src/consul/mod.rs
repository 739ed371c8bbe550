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
    /// By server. `None` before it has answered.
    catalogs: watch::Sender<Vec<Option<Catalog>>>,
    /// What the file has from the run before, for the time until a server answers.
    dumped: Catalog,
}

impl Consul {
    /// Starts to follow the servers, on the runtime that the caller is in.
    pub(crate) fn start(config: ConsulConfig) -> Arc<Self> {
        let dumped = config.dump.as_ref().filter(|dump| dump.load_on_init).and_then(dump::read);
        let catalogs = watch::Sender::new(vec![None; config.servers.len()]);
        let consul = Arc::new(Self { config, catalogs, dumped: dumped.unwrap_or_default() });
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
                    tokio::time::sleep(pause).await;
                    pause = RETRY_AFTER_MAX.min(pause * 2);
                }
            }
        }
    }

    fn learned(&self, number: usize, catalog: Catalog) {
        let changed = self.catalogs.send_if_modified(|known| {
            let other = known[number].as_ref() != Some(&catalog);
            known[number] = Some(catalog);
            other
        });
        if let Some(dump) = self.config.dump.as_ref().filter(|_| changed) {
            dump::write(dump, &self.services());
        }
    }

    /// All services that are known. A name should be known to one server alone; where it is not, the last one counts.
    fn services(&self) -> Catalog {
        let catalogs = self.catalogs.borrow();
        let mut services =
            if catalogs.iter().all(Option::is_some) { Catalog::default() } else { self.dumped.clone() };
        catalogs.iter().flatten().for_each(|catalog| services.extend(catalog.clone()));
        services
    }

    /// The nodes of a service; `None` where nobody knows it, and somebody might yet.
    fn nodes(&self, name: &str) -> Option<Vec<Node>> {
        let catalogs = self.catalogs.borrow();
        let mut known = catalogs.iter().rev().flatten().filter_map(|catalog| catalog.get(name));
        if let Some(nodes) = known.next() {
            return Some(nodes.clone());
        }
        let all_answered = catalogs.iter().all(Option::is_some);
        if let Some(nodes) = self.dumped.get(name).filter(|_| !all_answered) {
            return Some(nodes.clone());
        }
        let default = self.config.default_service.as_ref().map(|default| Node {
            host: default.host.clone(),
            port: Some(default.port),
            weight: self.config.weight,
            priority: 0,
        });
        (all_answered || default.is_some()).then(|| default.into_iter().collect())
    }

    async fn keep_up(self: Arc<Self>, service: Weak<Service>) {
        let mut catalogs = self.catalogs.subscribe();
        while let Some(service) = service.upgrade() {
            catalogs.mark_unchanged();
            if let Some(nodes) = self.nodes(service.name()) {
                service.heard(nodes);
            }
            drop(service);
            // Nobody is asked for one service, so the end of one has to be looked for.
            let _ = tokio::time::timeout(WANTED_CHECK, catalogs.changed()).await;
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
