//! Counters in Redis: the policies `redis`, `redis-cluster` and `redis-sentinel` of the plugins that limit.
//!
//! Each worker keeps one connection to each server, which all its requests share; connections are made by the worker
//! ([`plugin::Services::connect`]). Counters change by scripts that run on the server as one step. What is known of a
//! cluster's slots or of a group's master is shared by all workers and configurations that name it.

mod cluster;
mod config;
mod endpoint;
mod fault;
mod link;
mod links;
mod request;
pub(crate) mod schema;
mod sentinel;
mod slots;

pub(crate) use config::PolicyConfig;
pub(crate) use fault::Fault;
pub(crate) use request::{Request, Script, number, numbers};

use cluster::{Cluster, Clusters};
use config::RedisConfig;
use endpoint::{Access, Address, Endpoint, Timeouts};
use links::{Asker, Links};
use model::ConfigError;
use plugin::{CompileContext, Exchange, UpstreamCompiler};
use redis::Value;
use sentinel::{Sentinel, Sentinels};
use std::sync::Arc;
use stdx::PerWorker;

/// Where a configuration's counters are, compiled.
pub(crate) struct Redis {
    servers: Servers,
    workers: Arc<Workers>,
    compiler: UpstreamCompiler,
}

#[derive(Clone)]
enum Servers {
    One(Arc<Endpoint>),
    Cluster(Arc<Cluster>),
    Sentinel(Arc<Sentinel>),
}

/// The connections of all workers.
#[derive(Default)]
struct Workers(PerWorker<Arc<Links>>);

/// What asks for one request, on its worker. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    servers: Servers,
    asker: Asker,
}

impl Redis {
    /// Compiles a policy; `None` where counters are local.
    ///
    /// # Errors
    /// Addresses that are none; paths start at the plugin's configuration.
    pub(crate) fn compile(
        config: &PolicyConfig,
        cx: &CompileContext<'_>,
    ) -> Result<Option<Self>, Vec<ConfigError>> {
        let servers = match config {
            PolicyConfig::Local => return Ok(None),
            PolicyConfig::Redis(config) => Servers::One(one(config)?),
            PolicyConfig::RedisCluster(config) => Servers::Cluster(cx.shared.get::<Clusters>().join(config)?),
            PolicyConfig::RedisSentinel(config) => {
                Servers::Sentinel(cx.shared.get::<Sentinels>().join(config))
            }
        };
        Ok(Some(Self { servers, workers: cx.shared.get(), compiler: cx.upstreams() }))
    }

    /// What asks on the exchange's worker.
    pub(crate) fn client(&self, exchange: &Exchange<'_>) -> Client {
        let links = self.workers.0.with(exchange.worker, |links| Arc::clone(links));
        let services = std::rc::Rc::clone(exchange.services);
        Client {
            servers: self.servers.clone(),
            asker: Asker { links, services, compiler: self.compiler.clone() },
        }
    }
}

fn one(config: &RedisConfig) -> Result<Arc<Endpoint>, Vec<ConfigError>> {
    let port = u16::try_from(config.redis_port)
        .map_err(|_| vec![ConfigError::new("/redis_port", "expected a port, at most 65535")])?;
    Ok(Arc::new(Endpoint {
        address: Address { host: config.redis_host.as_str().into(), port },
        access: Access {
            tls: config.redis_ssl.then_some(config.redis_ssl_verify),
            username: config.redis_username.clone(),
            password: config.redis_password.clone(),
            database: config.redis_database,
            timeouts: Timeouts::of(config.redis_timeout, config.redis_keepalive_timeout),
        },
    }))
}

impl Client {
    /// Asks the server that has the request's first key, within the configured timeouts.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Value, Fault> {
        let (whole, asking) = match &self.servers {
            Servers::One(endpoint) => {
                let whole = endpoint.access.timeouts.whole();
                return tokio::time::timeout(whole, self.asker.ask(endpoint, request, false))
                    .await
                    .unwrap_or(LATE);
            }
            Servers::Cluster(cluster) => {
                (cluster.timeouts().whole(), Box::pin(cluster.ask(&self.asker, request)) as Asking<'_>)
            }
            Servers::Sentinel(group) => {
                (group.timeouts().whole(), Box::pin(group.ask(&self.asker, request)) as Asking<'_>)
            }
        };
        tokio::time::timeout(whole, asking).await.unwrap_or(LATE)
    }

    /// Whether keys of one request may be on different servers.
    pub(crate) fn spreads_keys(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Asks beside the requests, and logs what goes wrong under `purpose`.
    pub(crate) fn ask_later(&self, request: Request, purpose: &'static str) {
        let client = self.clone();
        let asking = async move {
            if let Err(fault) = client.ask(&request).await {
                tracing::error!("{purpose}: {fault}");
            }
        };
        self.asker.services.spawn(Box::pin(asking)).detach();
    }

    /// Runs `task` beside the requests.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.asker.services.spawn(Box::pin(task)).detach();
    }

    /// Lets `time` pass.
    pub(crate) fn sleep(&self, time: std::time::Duration) -> plugin::LocalFuture<()> {
        self.asker.services.sleep(time)
    }
}

type Asking<'c> = std::pin::Pin<Box<dyn Future<Output = Result<Value, Fault>> + 'c>>;

const LATE: Result<Value, Fault> = Err(Fault::Timeout("timed out while asking Redis"));

#[cfg(test)]
mod tests;
