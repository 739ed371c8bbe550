//! What the settings come to for the parts that run: made by one function at the start and at every reload, so that both
//! lead to the same gateway.

use crate::admin_tls;
use crate::assemble;
use crate::launch::Launch;
use anyhow::Context as _;
use config::Settings;
use config::settings::Files;
use config::settings::provider::Provider;
use delivery::Delivery;
use lua::Host;
use observe::AccessLog;
use observe::access_log::AccessLogConfig;
use plugin::Registry;
use serde_json::{Map, Value};
use snapshot::BuildOptions;
use std::path::Path;
use std::sync::Arc;

/// Everything that has to be made, and may fail, before settings are put in force. Making it changes nothing.
#[derive(Debug)]
pub struct Plan {
    /// The plugins.
    pub registry: Arc<Registry>,
    /// How snapshots are built.
    pub build: BuildOptions,
    /// The access log of requests.
    pub access_log: Log,
    /// The access log of sessions.
    pub stream_log: Log,
    /// TLS with clients.
    pub tls: Arc<tls::Server>,
    /// The same for sessions.
    pub stream_tls: Arc<tls::Server>,
    /// TLS with upstreams.
    pub upstream_tls: Arc<tls::Upstreams>,
    /// TLS of the Admin API; `None`: it is in the clear.
    pub admin_tls: Option<Arc<tls::rustls::ServerConfig>>,
    tls_options: tls::ServerOptions,
    /// What the registry is made of.
    plugins: PluginSettings,
    /// The code of Lua plugins.
    lua: Host,
}

/// `plugins`, `stream_plugins`, `plugin_attr`, and the files that resources may name.
type PluginSettings = (Option<Vec<String>>, Option<Vec<String>>, Map<String, Value>, Files);

/// An access log, where there is to be one.
#[derive(Debug)]
pub struct Log {
    config: Option<AccessLogConfig>,
    /// The open log.
    pub open: Option<Arc<AccessLog>>,
}

impl Log {
    /// Opens the log that `config` asks for, unless it is that of `before`.
    fn make(config: Option<AccessLogConfig>, before: Option<&Self>) -> anyhow::Result<Self> {
        if let Some(before) = before.filter(|before| before.config == config) {
            return Ok(Self { config, open: before.open.clone() });
        }
        let open = match &config {
            None => None,
            Some(config) => {
                let log = AccessLog::open(config)
                    .with_context(|| format!("the access log {} can't be opened", config.path.display()))?;
                Some(Arc::new(log))
            }
        };
        Ok(Self { config, open })
    }
}

impl Plan {
    /// Makes what `settings` ask for. What `before` has and stays the same is taken over: plugin state, an open log.
    ///
    /// # Errors
    /// What can't be had.
    pub fn make(settings: &Settings, launch: &Launch, before: Option<&Self>) -> anyhow::Result<Self> {
        let build = BuildOptions {
            router: assemble::router_mode(settings),
            no_health_checks: settings.proxy.disable_healthcheck,
            doubts_values: matches!(settings.provider, Provider::Etcd(_) | Provider::File(_)),
        };
        let plugins = (
            settings.plugins.clone(),
            settings.stream_plugins.clone(),
            settings.plugin_attr.clone(),
            settings.files.clone(),
        );
        let lua = Host::new(assemble::lua(settings, &launch.data_dir), before.map(|before| &before.lua));
        let registry = match before {
            Some(before) if before.plugins == plugins && before.lua.is(&lua) => Arc::clone(&before.registry),
            Some(before) => {
                Arc::new(registry_of(settings, &launch.data_dir, &lua)?.succeeding(&before.registry))
            }
            None => {
                let registry = registry_of(settings, &launch.data_dir, &lua)?;
                // As long as the process lives: a changed zone waits for a restart.
                registry.shared.insert(Arc::new(assemble::zones(settings, launch)));
                Arc::new(registry)
            }
        };
        let log = |log: Option<&_>, before| Log::make(assemble::access_log(log, launch), before);
        let access_log = log(settings.logs.access.as_ref(), before.map(|before| &before.access_log))?;
        let stream_log = log(settings.logs.streams.as_ref(), before.map(|before| &before.stream_log))?;
        let tls_options = settings.tls.options.clone();
        let (tls, stream_tls) = match before {
            // What sites have prepared for it stays of use.
            Some(before) if before.tls_options == tls_options => {
                (Arc::clone(&before.tls), Arc::clone(&before.stream_tls))
            }
            _ => {
                // What is spoken inside of a session is not known.
                let of_streams = tls::ServerOptions { alpn: Vec::new(), ..tls_options.clone() };
                let make = |options| anyhow::Ok(Arc::new(tls::Server::new(options).context("apisix.ssl")?.0));
                (make(&tls_options)?, make(&of_streams)?)
            }
        };
        // Read each time: the files may have changed.
        let upstream_tls = Arc::new(assemble::upstream_tls(settings, launch)?);
        let admin_tls = admin_tls::make(settings, launch)?;
        Ok(Self {
            registry,
            build,
            access_log,
            stream_log,
            tls,
            stream_tls,
            upstream_tls,
            admin_tls,
            tls_options,
            plugins,
            lua,
        })
    }

    /// Whether the same resources come to the same snapshot under `other`.
    pub fn builds_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry) && self.build == other.build
    }
}

/// The plugins that the configuration names, ready to check what configures them. Log files with relative paths are
/// below `data_dir`.
///
/// # Errors
/// When `plugin_attr` is refused by one of them.
pub fn registry(settings: &Settings, data_dir: &Path) -> anyhow::Result<Registry> {
    registry_of(settings, data_dir, &Host::new(assemble::lua(settings, data_dir), None))
}

/// As [`registry`], with the code that `lua` has loaded.
fn registry_of(settings: &Settings, data_dir: &Path, lua: &Host) -> anyhow::Result<Registry> {
    let make = |all, in_lua: Result<_, Vec<lua::Refused>>, named| {
        let in_lua = in_lua.map_err(|refused| {
            let messages: Vec<_> = refused.iter().map(ToString::to_string).collect();
            anyhow::anyhow!(messages.join("; "))
        })?;
        let plugins = assemble::plugins(all, in_lua, named);
        let registry = Registry::new(plugins.used, settings.plugin_attr.clone())?;
        let registry = registry.with_files(assemble::files(settings, data_dir));
        anyhow::Ok(registry.without(plugins.disabled).with_upstreams(snapshot::Upstream::of_plugin))
    };
    let (named, streams) = (settings.plugins.as_ref(), settings.stream_plugins.as_ref());
    let streams = make(plugins::stream(), lua.stream_plugins(streams.map(Vec::as_slice)), streams)?;
    let mut registry =
        make(plugins::all(), lua.plugins(named.map(Vec::as_slice)), named)?.with_streams(streams);
    registry.filters = plugin::RouteFilters::new(lua.filters());
    registry.shared.insert(Arc::new(Delivery::below(data_dir)));
    Ok(registry)
}
