//! What the settings come to for the parts that run: made by one function at the start and at every reload, so that both
//! lead to the same gateway.

use crate::assemble;
use crate::config::Settings;
use crate::config::centre::Provider;
use crate::launch::Launch;
use anyhow::Context as _;
use observe::AccessLog;
use observe::access_log::AccessLogConfig;
use plugin::Registry;
use serde_json::{Map, Value};
use snapshot::BuildOptions;
use std::sync::Arc;

/// Everything that has to be made, and may fail, before settings are put in force. Making it changes nothing.
#[derive(Debug)]
pub struct Plan {
    /// The plugins.
    pub registry: Arc<Registry>,
    /// How snapshots are built.
    pub build: BuildOptions,
    /// The access log, where there is to be one.
    pub access_log: Option<Arc<AccessLog>>,
    access_log_config: Option<AccessLogConfig>,
    /// TLS with clients.
    pub tls: Arc<tls::Server>,
    /// TLS with upstreams.
    pub upstream_tls: Arc<tls::Upstreams>,
    tls_options: tls::ServerOptions,
    /// `plugins` and `plugin_attr`, of which the registry is made.
    plugins: (Option<Vec<String>>, Map<String, Value>),
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
        let plugins = (settings.plugins.clone(), settings.plugin_attr.clone());
        let registry = match before {
            Some(before) if before.plugins == plugins => Arc::clone(&before.registry),
            Some(before) => Arc::new(registry(settings)?.succeeding(&before.registry)),
            None => {
                let registry = registry(settings)?;
                // As long as the process lives: a changed zone waits for a restart.
                registry.shared.insert(Arc::new(assemble::zones(settings, launch)));
                Arc::new(registry)
            }
        };
        let access_log_config = assemble::access_log(settings, launch);
        let kept = before.filter(|before| before.access_log_config == access_log_config);
        let access_log = match (kept, &access_log_config) {
            (Some(before), _) => before.access_log.clone(),
            (None, Some(config)) => {
                let log = AccessLog::open(config)
                    .with_context(|| format!("the access log {} can't be opened", config.path.display()))?;
                Some(Arc::new(log))
            }
            (None, None) => None,
        };
        let tls_options = settings.tls.options.clone();
        let tls = match before {
            // What sites have prepared for it stays of use.
            Some(before) if before.tls_options == tls_options => Arc::clone(&before.tls),
            _ => Arc::new(tls::Server::new(&tls_options).context("apisix.ssl")?.0),
        };
        // Read each time: the files may have changed.
        let upstream_tls = Arc::new(assemble::upstream_tls(settings, launch)?);
        Ok(Self { registry, build, access_log, access_log_config, tls, upstream_tls, tls_options, plugins })
    }

    /// Whether the same resources come to the same snapshot under `other`.
    pub fn builds_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry) && self.build == other.build
    }
}

/// The plugins that the configuration names, ready to check what configures them.
///
/// # Errors
/// When `plugin_attr` is refused by one of them.
pub fn registry(settings: &Settings) -> anyhow::Result<Registry> {
    let plugins = assemble::plugins(settings);
    if !plugins.missing.is_empty() {
        tracing::warn!("plugins that are not built in are left out: {}", plugins.missing.join(", "));
    }
    let registry = Registry::new(&plugins.used, settings.plugin_attr.clone())?;
    Ok(registry.without(plugins.disabled).with_upstreams(snapshot::Upstream::of_plugin))
}
