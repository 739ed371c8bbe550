//! A cluster: each key belongs to a slot, each slot to a node, and nodes say where a slot went.

use super::config::RedisClusterConfig;
use super::endpoint::{Access, Address, Endpoint, Timeouts};
use super::fault::Fault;
use super::links::Asker;
use super::request::Request;
use super::slots::{Slots, redirection, slot_of};
use model::ConfigError;
use redis::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Answers of a cluster that an operation follows. A slot that moves takes two.
const REDIRECTIONS_MAX: usize = 5;

/// How long an operation waits where a node asks it to come back.
const PAUSE: Duration = Duration::from_millis(50);

/// The clusters in use: configurations that say the same share what is known.
#[derive(Default)]
pub(super) struct Clusters(Mutex<HashMap<RedisClusterConfig, Weak<Cluster>>>);

/// One cluster, for all workers and configurations.
pub(super) struct Cluster {
    access: Access,
    /// The nodes that are written in the configuration.
    seeds: Vec<Address>,
    known: Mutex<Known>,
    /// Held by the one who reads the list of slots anew.
    reading: tokio::sync::Mutex<()>,
    /// Whether somebody does so beside the requests.
    refreshing: AtomicBool,
    /// The node that is asked for the list first: the next one whenever one fails.
    first: AtomicUsize,
}

#[derive(Default)]
struct Known {
    slots: Slots,
    /// How often the list was read.
    reads: u64,
    endpoints: HashMap<Address, Arc<Endpoint>>,
}

impl Clusters {
    /// The cluster of `config`.
    ///
    /// # Errors
    /// Nodes that are no addresses.
    pub(super) fn join(&self, config: &RedisClusterConfig) -> Result<Arc<Cluster>, Vec<ConfigError>> {
        let mut clusters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = clusters.get(config).and_then(Weak::upgrade) {
            return Ok(cluster);
        }
        let cluster = Arc::new(Cluster::new(config)?);
        // Bounded by the configurations that exist.
        clusters.retain(|_, cluster| cluster.strong_count() > 0);
        clusters.insert(config.clone(), Arc::downgrade(&cluster));
        Ok(cluster)
    }
}

/// What to do about a fault.
enum Advice {
    /// The slot is at another node from now on.
    Moved(Address),
    /// The slot is on its way to another node, which is asked this once.
    Ask(Address),
    /// The node can't answer yet.
    ComeBack,
    /// The node may have lost the slot to another one.
    FindOut,
    GiveUp,
}

impl Cluster {
    fn new(config: &RedisClusterConfig) -> Result<Self, Vec<ConfigError>> {
        let (mut seeds, mut errors) = (Vec::new(), Vec::new());
        for (at, node) in config.redis_cluster_nodes.iter().enumerate() {
            match Address::parse(node) {
                Some(address) => seeds.push(address),
                None => {
                    let message = format!("\"{node}\" is not host:port");
                    errors.push(ConfigError::new(format!("/redis_cluster_nodes/{at}"), message));
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let access = Access {
            tls: config.redis_cluster_ssl.then_some(config.redis_cluster_ssl_verify),
            username: None,
            password: config.redis_password.clone(),
            database: 0,
            timeouts: Timeouts::of(config.redis_timeout, config.redis_keepalive_timeout),
        };
        Ok(Self {
            access,
            seeds,
            known: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            refreshing: AtomicBool::new(false),
            first: AtomicUsize::new(0),
        })
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.access.timeouts
    }

    /// Asks the node that has the slot of the request's first key, wherever that has moved.
    pub(super) async fn ask(self: &Arc<Self>, asker: &Asker, request: &Request) -> Result<Value, Fault> {
        let slot = slot_of(request.routing_key());
        let mut to = self.owner(asker, slot).await?;
        let (mut asking, mut found_out) = (false, false);
        let mut last = Fault::unexpected();
        for _ in 0..=REDIRECTIONS_MAX {
            last = match asker.ask(&to, request, asking).await {
                Ok(reply) => return Ok(reply),
                Err(fault) => fault,
            };
            asking = false;
            match advice(&last, &to.address) {
                Advice::Moved(address) => {
                    self.lock().slots.set(slot, address.clone());
                    self.refresh(asker);
                    to = self.endpoint(&address);
                }
                Advice::Ask(address) => {
                    asking = true;
                    to = self.endpoint(&address);
                }
                Advice::ComeBack => {
                    asker.services.sleep(PAUSE).await;
                    self.refresh(asker);
                    to = self.owner(asker, slot).await?;
                }
                Advice::FindOut if !found_out => {
                    found_out = true;
                    let reads = self.lock().reads;
                    self.read(asker, reads).await?;
                    let owner = self.owner(asker, slot).await?;
                    // Nothing new: asking the same node again would end alike.
                    if owner == to && !matches!(last, Fault::Closed(_)) {
                        break;
                    }
                    to = owner;
                }
                Advice::FindOut | Advice::GiveUp => break,
            }
        }
        if matches!(last, Fault::Timeout(_)) {
            self.refresh(asker);
        }
        Err(last)
    }

    /// The node that has `slot`, by a list that is read if there is none yet.
    async fn owner(&self, asker: &Asker, slot: u16) -> Result<Arc<Endpoint>, Fault> {
        let reads = match self.known_owner(slot) {
            Ok(endpoint) => return Ok(endpoint),
            Err(reads) => reads,
        };
        self.read(asker, reads).await?;
        self.known_owner(slot).map_err(|_| Fault::Refused {
            code: "CLUSTERDOWN".to_owned(),
            detail: format!("no node serves hash slot {slot}"),
        })
    }

    /// The node that has `slot`; how often the list was read where that does not say.
    fn known_owner(&self, slot: u16) -> Result<Arc<Endpoint>, u64> {
        let mut known = self.lock();
        match known.slots.owner(slot).cloned() {
            Some(address) => Ok(known.endpoint(&address, &self.access)),
            None => Err(known.reads),
        }
    }

    /// Reads the list of slots anew, unless somebody did so since it was read for the `reads`th time.
    async fn read(&self, asker: &Asker, reads: u64) -> Result<(), Fault> {
        let _one = self.reading.lock().await;
        let nodes = {
            let known = self.lock();
            if known.reads != reads {
                return Ok(());
            }
            let mut nodes = known.slots.nodes();
            nodes.extend(self.seeds.iter().filter(|seed| !known.slots.nodes().contains(seed)).cloned());
            nodes
        };
        let request = Request::command("CLUSTER").arg("SLOTS");
        let mut last = Fault::unexpected();
        for _ in 0..nodes.len() {
            let address = &nodes[self.first.load(Ordering::Relaxed) % nodes.len()];
            match asker.ask(&self.endpoint(address), &request, false).await {
                Ok(reply) => match Slots::read(&reply, address) {
                    Some(slots) => {
                        self.lock().replace(slots, &self.seeds);
                        return Ok(());
                    }
                    None => last = Fault::unexpected(),
                },
                Err(fault) => last = fault,
            }
            // A request whose time is up leaves it to the next one to go on from here.
            self.first.fetch_add(1, Ordering::Relaxed);
        }
        Err(last)
    }

    /// Reads the list of slots anew beside the requests.
    fn refresh(self: &Arc<Self>, asker: &Asker) {
        if self.refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let refreshing = Refreshing(Arc::clone(self));
        let own = asker.clone();
        asker
            .services
            .spawn(Box::pin(async move {
                let cluster = &refreshing.0;
                let reads = cluster.lock().reads;
                let read = tokio::time::timeout(cluster.timeouts().whole(), cluster.read(&own, reads));
                if let Ok(Err(fault)) = read.await {
                    tracing::warn!(%fault, "failed to read the slots of the Redis cluster");
                }
            }))
            .detach();
    }

    fn endpoint(&self, address: &Address) -> Arc<Endpoint> {
        self.lock().endpoint(address, &self.access)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the next refresh begin when this one ends, however it ends.
struct Refreshing(Arc<Cluster>);

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.0.refreshing.store(false, Ordering::Release);
    }
}

impl Known {
    fn endpoint(&mut self, address: &Address, access: &Access) -> Arc<Endpoint> {
        if let Some(endpoint) = self.endpoints.get(address) {
            return Arc::clone(endpoint);
        }
        let endpoint = Arc::new(Endpoint { address: address.clone(), access: access.clone() });
        self.endpoints.insert(address.clone(), Arc::clone(&endpoint));
        endpoint
    }

    fn replace(&mut self, slots: Slots, seeds: &[Address]) {
        let nodes = slots.nodes();
        self.endpoints.retain(|address, _| nodes.contains(address) || seeds.contains(address));
        self.slots = slots;
        self.reads += 1;
    }
}

fn advice(fault: &Fault, from: &Address) -> Advice {
    let Fault::Refused { code, detail } = fault else {
        return if fault.suggests_failover() { Advice::FindOut } else { Advice::GiveUp };
    };
    match code.as_str() {
        "MOVED" => redirection(detail, from).map_or(Advice::GiveUp, Advice::Moved),
        "ASK" => redirection(detail, from).map_or(Advice::GiveUp, Advice::Ask),
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => Advice::ComeBack,
        _ if fault.suggests_failover() => Advice::FindOut,
        _ => Advice::GiveUp,
    }
}
