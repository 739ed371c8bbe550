//! A master and its replicas that sentinels watch: they say which server is which, and this follows them.

use super::config::{RedisSentinelConfig, Role};
use super::endpoint::{Access, Address, Endpoint, Timeouts};
use super::fault::Fault;
use super::links::Asker;
use super::request::{Request, text};
use redis::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use stdx::{Moment, Secret};

/// After how long the sentinels are asked again though the server answers: a master that was cut off from them answers
/// on.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// The groups of servers in use: configurations that say the same share what is known.
#[derive(Default)]
pub(super) struct Sentinels(Mutex<HashMap<RedisSentinelConfig, Weak<Sentinel>>>);

/// One group of servers, for all workers and configurations.
pub(super) struct Sentinel {
    master_name: String,
    role: Role,
    access: Access,
    sentinels: Vec<Arc<Endpoint>>,
    known: Mutex<Known>,
    /// Held by the one who asks the sentinels.
    resolving: tokio::sync::Mutex<()>,
    /// Whether somebody does so beside the requests.
    checking: AtomicBool,
    /// The sentinel that is asked first: the next one whenever one fails.
    first: AtomicUsize,
}

#[derive(Default)]
struct Known {
    /// The server, and when it was said to be the one.
    server: Option<(Arc<Endpoint>, Moment)>,
    /// How often the sentinels were asked.
    resolutions: u64,
}

impl Sentinels {
    /// The group of `config`.
    pub(super) fn join(&self, config: &RedisSentinelConfig) -> Arc<Sentinel> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get(config).and_then(Weak::upgrade) {
            return group;
        }
        let group = Arc::new(Sentinel::new(config));
        // Bounded by the configurations that exist.
        groups.retain(|_, group| group.strong_count() > 0);
        groups.insert(config.clone(), Arc::downgrade(&group));
        group
    }
}

impl Sentinel {
    fn new(config: &RedisSentinelConfig) -> Self {
        let timeouts = Timeouts {
            connect: Duration::from_millis(config.redis_connect_timeout),
            reply: Duration::from_millis(config.redis_read_timeout),
            idle: Duration::from_millis(config.redis_keepalive_timeout),
        };
        let access = |username: &Option<String>, password: &Secret, database| Access {
            tls: None,
            username: username.clone(),
            password: password.clone(),
            database,
            timeouts,
        };
        let of_sentinels = access(&config.sentinel_username, &config.sentinel_password, 0);
        let sentinel = |at: &super::config::SentinelAddress| {
            let address = Address { host: at.host.as_str().into(), port: at.port };
            Arc::new(Endpoint { address, access: of_sentinels.clone() })
        };
        Self {
            master_name: config.redis_master_name.clone(),
            role: config.redis_role,
            access: access(&config.redis_username, &config.redis_password, config.redis_database),
            sentinels: config.redis_sentinels.iter().map(sentinel).collect(),
            known: Mutex::default(),
            resolving: tokio::sync::Mutex::default(),
            checking: AtomicBool::new(false),
            first: AtomicUsize::new(0),
        }
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.access.timeouts
    }

    /// Asks the server of the configured role, the next one after a failover.
    pub(super) async fn ask(self: &Arc<Self>, asker: &Asker, request: &Request) -> Result<Value, Fault> {
        let (to, resolutions) = self.server(asker).await?;
        let fault = match asker.ask(&to, request, false).await {
            Ok(reply) => return Ok(reply),
            Err(fault) => fault,
        };
        if matches!(fault, Fault::Timeout(_)) {
            // This request's time is up; the next one finds out.
            self.lock().server = None;
            return Err(fault);
        }
        if !fault.suggests_failover() {
            return Err(fault);
        }
        self.resolve(asker, resolutions).await?;
        let (next, _) = self.server(asker).await?;
        if next == to {
            return Err(fault);
        }
        asker.ask(&next, request, false).await
    }

    /// The server, and how often the sentinels were asked until now.
    async fn server(self: &Arc<Self>, asker: &Asker) -> Result<(Arc<Endpoint>, u64), Fault> {
        let unknown = {
            let known = self.lock();
            match &known.server {
                Some((server, said)) => {
                    let found = (Arc::clone(server), known.resolutions);
                    if said.elapsed() > CHECK_PERIOD {
                        drop(known);
                        self.check(asker);
                    }
                    return Ok(found);
                }
                None => known.resolutions,
            }
        };
        self.resolve(asker, unknown).await?;
        let known = self.lock();
        let server = known.server.as_ref().map(|(server, _)| (Arc::clone(server), known.resolutions));
        server.ok_or_else(|| no_server("no server of the role"))
    }

    /// Asks the sentinels for the server, unless somebody did so since they were asked for the `resolutions`th time.
    async fn resolve(&self, asker: &Asker, resolutions: u64) -> Result<(), Fault> {
        let _one = self.resolving.lock().await;
        {
            let known = self.lock();
            if known.resolutions != resolutions && known.server.is_some() {
                return Ok(());
            }
        }
        let mut faults = Vec::new();
        for _ in 0..self.sentinels.len() {
            let sentinel = &self.sentinels[self.first.load(Ordering::Relaxed) % self.sentinels.len()];
            match self.ask_sentinel(asker, sentinel).await {
                Ok(address) => {
                    let mut known = self.lock();
                    let server = Arc::new(Endpoint { address, access: self.access.clone() });
                    let before = known.server.replace((Arc::clone(&server), Moment::now()));
                    if before.is_some_and(|(before, _)| before != server) {
                        tracing::warn!(
                            master = self.master_name,
                            server = %server.address,
                            "the sentinels name another Redis server"
                        );
                    }
                    known.resolutions += 1;
                    return Ok(());
                }
                Err(fault) => faults.push(fault.to_string()),
            }
            // A request whose time is up leaves it to the next one to go on from here.
            self.first.fetch_add(1, Ordering::Relaxed);
        }
        Err(no_server(&format!("no hosts available, previous_errors: {}", faults.join(", "))))
    }

    async fn ask_sentinel(&self, asker: &Asker, sentinel: &Arc<Endpoint>) -> Result<Address, Fault> {
        let command = |name| Request::command("SENTINEL").arg(name).arg(self.master_name.as_str());
        match self.role {
            Role::Master => {
                let reply = asker.ask(sentinel, &command("get-master-addr-by-name"), false).await?;
                let Value::Array(parts) = &reply else { return Err(no_server("invalid master name")) };
                let [host, port] = parts.as_slice() else { return Err(Fault::unexpected()) };
                address(text(host), text(port)).ok_or_else(Fault::unexpected)
            }
            Role::Slave => {
                let reply = asker.ask(sentinel, &command("slaves"), false).await?;
                let Value::Array(replicas) = &reply else { return Err(Fault::unexpected()) };
                replicas.iter().find_map(healthy).ok_or_else(|| no_server("no replica is reachable"))
            }
        }
    }

    /// Asks the sentinels beside the requests.
    fn check(self: &Arc<Self>, asker: &Asker) {
        if self.checking.swap(true, Ordering::AcqRel) {
            return;
        }
        let checking = Checking(Arc::clone(self));
        let own = asker.clone();
        asker
            .services
            .spawn(Box::pin(async move {
                let group = &checking.0;
                let resolutions = group.lock().resolutions;
                let asked = tokio::time::timeout(group.timeouts().whole(), group.resolve(&own, resolutions));
                if let Ok(Err(fault)) = asked.await {
                    tracing::warn!(%fault, "failed to ask the Redis sentinels");
                    // Not again with each request.
                    if let Some((_, said)) = &mut group.lock().server {
                        *said = Moment::now();
                    }
                }
            }))
            .detach();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the next check begin when this one ends, however it ends.
struct Checking(Arc<Sentinel>);

impl Drop for Checking {
    fn drop(&mut self) {
        self.0.checking.store(false, Ordering::Release);
    }
}

fn no_server(why: &str) -> Fault {
    Fault::Unreachable(format!("redis connection failed, err: {why}"))
}

fn address(host: Option<&str>, port: Option<&str>) -> Option<Address> {
    let port = port?.parse().ok().filter(|port| *port > 0)?;
    Some(Address { host: host.filter(|host| !host.is_empty())?.into(), port })
}

/// The address of a replica, if the sentinel sees nothing wrong with it: its fields are names and values in turn.
fn healthy(replica: &Value) -> Option<Address> {
    let Value::Array(fields) = replica else { return None };
    let field = |name: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find(|pair| text(&pair[0]) == Some(name)).and_then(|pair| text(&pair[1]))
    };
    if field("flags")? != "slave" {
        return None;
    }
    address(field("ip"), field("port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_down_is_passed_over() {
        let replica = |fields: &[&str]| {
            Value::Array(fields.iter().map(|field| Value::BulkString((*field).into())).collect())
        };
        let found = healthy(&replica(&["ip", "10.0.0.1", "port", "7000", "flags", "slave"]));
        assert_eq!(found.map(|address| address.to_string()).as_deref(), Some("10.0.0.1:7000"));
        for sick in [
            replica(&["ip", "10.0.0.1", "port", "7000", "flags", "s_down,slave"]),
            replica(&["ip", "10.0.0.1", "port", "0", "flags", "slave"]),
            replica(&["ip", "", "port", "1", "flags", "slave"]),
            replica(&["flags"]),
            Value::Nil,
        ] {
            assert_eq!(healthy(&sick), None, "{sick:?}");
        }
    }
}
