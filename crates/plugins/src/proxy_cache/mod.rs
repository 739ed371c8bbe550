//! Caches responses of upstreams in memory or on disk.
//!
//! ## When to use
//! Use it when an upstream responds to many requests in the same way. `cache_key` defines which requests are the
//! same. The zones that hold the responses are defined in `apisix.proxy_cache` in the configuration file.
//! `Apisix-Cache-Status` in each response tells how it was produced: `HIT`, `MISS`, `EXPIRED`, `REVALIDATED` (the
//! upstream confirmed the cached response), `STALE` or `BYPASS`. A `PURGE` request with the same key removes the
//! cached response.
//!
//! ## Example
//! ```json
//! {
//!     "proxy-cache": {
//!         "cache_strategy": "memory",
//!         "cache_zone": "memory_cache",
//!         "cache_ttl": 60,
//!         "cache_http_status": [200]
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Of requests that miss the same response at the same time one is sent to the upstream, and the others wait for it, five
//!   seconds at most.
//! - An expired response with an `ETag` or a `Last-Modified` is confirmed by the upstream, not fetched again. A client that
//!   has it already gets 304.
//! - `stale-while-revalidate` and `stale-if-error` of a response are honoured, in zones of both kinds.
//! - A request for a part (`Range`) is answered with that of a kept 200, and with the whole where it has to be fetched.
//! - What POST gave is kept apart from what GET and HEAD gave, and HEAD is asked for as GET. A body of POST is part of the
//!   key only where `cache_key` has a variable of it, as in APISIX; a GET or HEAD with a body passes by the cache.
//! - A response to a request with `Authorization` is kept only if it says `public`, `must-revalidate` or `s-maxage` (RFC 9111
//!   section 3.5), unless the key says whose it is: by a consumer whose credential the gateway has checked, or by
//!   `$http_authorization`. APISIX keeps it under the name that basic authentication claims, or for everybody.
//! - The key tells apart what the upstream can tell apart: the forms `/x%2fy` and `/x/y` of a path and `a.com` and `a.com:8080`
//!   of a host, where `cache_key` has a variable of these, and `http` from `https`. Values that run together in APISIX's key
//!   (`/a` and `b`, `/ab` and nothing) don't here.
//! - A request that changes something (PUT, POST, DELETE and all methods but the safe ones) makes what is kept for its URI
//!   invalid once the upstream has answered it without an error (RFC 9111 section 4.4).
//! - 206 and 304 are never cached, whatever `cache_http_status` says.
//! - As in APISIX, whoever reaches the route may send PURGE: let another plugin or `methods` of the route keep others out.
//! - Plugins that run after this one in the access phase also run for hits.

mod answer;
mod keeper;
mod key;
mod lookup;
mod names;
mod schema;

use cache::{Policy, Zone, ZoneError, Zones};
use model::ConfigError;
use model::var::Template;
use names::Names;
use plugin::{CompileContext, Exchange, Flow, OnAccess, OnResponse, Plugin, PluginDef, UpstreamResponse};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use stdx::Clock;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ProxyCache>("proxy-cache", 1085).on_access().on_response().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    max_resp_body_size: usize,
    cache_zone: String,
    cache_strategy: Strategy,
    cache_key: Vec<String>,
    cache_http_status: Vec<u16>,
    cache_method: Vec<String>,
    hide_cache_headers: bool,
    cache_control: bool,
    #[serde(default)]
    cache_bypass: Vec<String>,
    #[serde(default)]
    no_cache: Vec<String>,
    cache_ttl: u64,
    consumer_isolation: bool,
    cache_set_cookie: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Strategy {
    Disk,
    Memory,
}

/// The compiled form.
pub struct ProxyCache {
    hide_cache_headers: bool,
    /// `None` where the zone can't be used on this machine.
    cache: Option<Arc<Cache>>,
}

/// What is kept, and how it is looked for.
struct Cache {
    zone: Arc<Zone>,
    clock: Arc<Clock>,
    strategy: Strategy,
    key: Vec<Template>,
    names: Names,
    /// Who the client is, where the key is to say so and doesn't.
    identity: Option<Template>,
    bypass: Vec<Template>,
    no_cache: Vec<Template>,
    methods: Vec<String>,
    statuses: Vec<u16>,
    /// Whether requests' `Cache-Control` counts.
    heeds_requests: bool,
    policy: Policy,
    cookies: bool,
    body_bytes_max: usize,
}

/// Variables in a key that say who the client is.
const IDENTITIES: [&str; 4] = ["$consumer_name", "$consumer_group_id", "$remote_user", "$http_authorization"];

impl Plugin for ProxyCache {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        if config.cache_key.iter().any(|part| part == "$request_method") {
            let message = "cache_key variable $request_method unsupported";
            return Err(vec![ConfigError::new("/cache_key", message)]);
        }
        let zones = cx.shared.get::<Zones>();
        let hide_cache_headers = config.hide_cache_headers;
        match zones.open(&config.cache_zone, config.cache_strategy == Strategy::Disk) {
            Ok(zone) => {
                let cache = Cache::new(config, zone, zones.disk_ttl(), cx.shared.get());
                Ok(Self { hide_cache_headers, cache: Some(Arc::new(cache)) })
            }
            // Another machine with the same configuration may have the folder.
            Err(error @ ZoneError::Unusable(..)) => {
                tracing::error!("proxy-cache keeps nothing: {error}");
                Ok(Self { hide_cache_headers, cache: None })
            }
            Err(error) => Err(vec![ConfigError::new("/cache_zone", error.to_string())]),
        }
    }

    fn schema() -> Value {
        schema::schema()
    }
}

impl Cache {
    fn new(config: Config, zone: Arc<Zone>, disk_ttl: Duration, clock: Arc<Clock>) -> Self {
        let templates =
            |parts: &[String]| parts.iter().map(|part| Template::parse(part)).collect::<Vec<Template>>();
        let ttl = Duration::from_secs(config.cache_ttl);
        let on_disk = config.cache_strategy == Strategy::Disk;
        let isolated = config.consumer_isolation
            && !config.cache_key.iter().any(|part| IDENTITIES.contains(&part.as_str()));
        Self {
            zone,
            clock,
            strategy: config.cache_strategy,
            key: templates(&config.cache_key),
            names: Names::of(&config.cache_key),
            identity: isolated.then(|| Template::parse("$remote_user")),
            bypass: templates(&config.cache_bypass),
            no_cache: templates(&config.no_cache),
            methods: config.cache_method,
            statuses: config.cache_http_status,
            heeds_requests: config.cache_control && !on_disk,
            policy: match (on_disk, config.cache_control) {
                (true, _) => Policy::Stated(disk_ttl),
                (false, true) => Policy::Stated(Duration::ZERO),
                (false, false) => Policy::Fixed(ttl),
            },
            cookies: config.cache_set_cookie && !on_disk,
            body_bytes_max: config.max_resp_body_size,
        }
    }
}

impl OnAccess for ProxyCache {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        match &self.cache {
            Some(cache) => cache.serve(exchange),
            None => {
                exchange.reply_headers.set(answer::STATUS, "BYPASS");
                Flow::Next
            }
        }
    }
}

impl OnResponse for ProxyCache {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        if let Some(cache) = &self.cache {
            cache.note_change(exchange, response);
        }
        if self.hide_cache_headers {
            ["Cache-Control", "Expires"].iter().for_each(|name| exchange.reply_headers.remove(name));
        }
    }
}

#[cfg(test)]
mod tests;
