//! What each part of the gateway is told, taken from the settings.

use crate::cores;
use crate::launch::Launch;
use crate::plan::Plan;
use admin::{AdminKey, AdminSettings, ApiVersion, Role};
use anyhow::Context as _;
use config::settings::provider::{Provider, Role as Plane};
use config::settings::{self, AdminRole, AdminVersion, Escape, RouterKind, Settings, TrustedFile};
use engine::{ClientLimits, EngineConfig, Listen, Mount, Serves, Streams};
use observe::access_log::{self, AccessLogConfig};
use observe::metrics::{MetricsConfig, SERIES_DEFAULT};
use plugin::{BodyLimits, FileAccess, PathRules, PluginDef};
use router::Mode;
use snapshot::Keepalive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stdx::Folders;

/// How many workers there are.
pub fn workers(settings: &Settings) -> usize {
    settings.process.workers.unwrap_or_else(cores::granted)
}

/// What tells this process from others.
#[derive(Debug)]
pub struct Own {
    /// Random bits that make its request ids its own.
    pub seed: u64,
    /// The id of this node among those of its fleet: hexadecimal digits, which outlive the process.
    pub node_id: String,
}

/// What the machine calls itself.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The first 128 bits of a node's id in the form that APISIX's ids have.
fn as_uuid(hex: &str) -> String {
    let mut rest = hex;
    let parts = [8, 4, 4, 4, 12].map(|length| {
        let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        part
    });
    parts.join("-")
}

/// What `Server` headers say.
fn server_name(settings: &Settings) -> &'static str {
    if settings.proxy.server_tokens { concat!("Tidegate/", env!("CARGO_PKG_VERSION")) } else { "Tidegate" }
}

/// The data plane's configuration.
pub fn engine(settings: &Settings, plan: &Plan, own: &Own, mount: Option<Mount>) -> EngineConfig {
    let (http, proxy) = (&settings.http, &settings.proxy);
    let pool = &http.upstream;
    EngineConfig {
        listen: listen(settings),
        workers: workers(settings),
        exit_on_panic: settings.process.exits_on_panic,
        worker_connections: settings.process.worker_connections,
        cores: if settings.process.cpu_affinity { cores::allowed() } else { Vec::new() },
        names: proxy.names.clone(),
        client: ClientLimits {
            keepalive_timeout: http.keepalive_timeout,
            keepalive_requests: http.keepalive_requests,
            handshake_timeout: http.ssl_handshake_timeout,
            header_timeout: http.client_header_timeout,
            body_timeout: http.client_body_timeout,
            send_timeout: http.send_timeout,
            max_body_bytes: http.client_max_body_size,
        },
        keepalive: Keepalive {
            size: u32::try_from(pool.keepalive).unwrap_or(u32::MAX),
            idle_timeout: Some(pool.keepalive_timeout).filter(|timeout| !timeout.is_zero()),
            requests: pool.keepalive_requests,
        },
        server: server_name(settings).to_owned(),
        show_upstream_status: proxy.show_upstream_status,
        real_ip: engine::RealIp {
            from: http.real_ip_from.clone(),
            header: http.real_ip_header.clone(),
            recursive: http.real_ip_recursive,
        },
        drops_underscores: !http.underscores_in_headers,
        trusted_addresses: proxy.trusted_addresses.clone(),
        paths: explain(settings).paths,
        body_vars: explain(settings).body,
        gateway: gateway(settings, own),
        mount,
        access_log: plan.access_log.open.clone(),
        streams: Streams {
            tls: Some(Arc::clone(&plan.stream_tls)),
            real_ip_from: settings.streams.real_ip_from.clone(),
            access_log: plan.stream_log.open.clone(),
        },
        http2: proxy.http2,
        tls: Some(Arc::clone(&plan.tls)),
        upstream_tls: Arc::clone(&plan.upstream_tls),
    }
}

/// What plugins know of the process.
pub fn gateway(settings: &Settings, own: &Own) -> plugin::Gateway {
    let proxy = &settings.proxy;
    plugin::Gateway {
        hostname: hostname(),
        id: proxy.id.clone().unwrap_or_else(|| as_uuid(&own.node_id)),
        pid: std::process::id(),
        seed: own.seed,
        real_ip_header: Some(settings.http.real_ip_header.clone()).filter(|name| name != "proxy_protocol"),
        https_port: settings.tls.listen.first().map(|listen| listen.address.port()).filter(|port| *port != 0),
    }
}

/// The data plane's addresses.
pub fn listen(settings: &Settings) -> Vec<Listen> {
    if settings.role == Plane::ControlPlane {
        return Vec::new();
    }
    let (proxied, streams) = (&settings.proxy_protocol, &settings.streams);
    let of_http = [
        (&settings.proxy.listen, false, false),
        (&settings.tls.listen, true, false),
        (&proxied.http, false, true),
        (&proxied.https, true, true),
    ];
    let of_http = of_http.into_iter().flat_map(|(all, tls, proxy_protocol)| {
        all.iter().map(move |listen| Listen {
            address: listen.address,
            optional: listen.implied,
            tls,
            proxy_protocol,
            serves: Serves::Http,
        })
    });
    let tcp = streams.tcp.iter().map(|listen| Listen {
        address: listen.address,
        optional: false,
        tls: listen.tls,
        proxy_protocol: listen.proxy_protocol,
        serves: Serves::Tcp { proxy_protocol_to_upstream: listen.proxy_protocol_to_upstream },
    });
    let udp = streams.udp.iter().map(|&address| Listen {
        address,
        optional: false,
        tls: false,
        proxy_protocol: false,
        serves: Serves::Udp,
    });
    of_http.chain(tcp).chain(udp).collect()
}

/// What TLS with upstreams trusts.
///
/// # Errors
/// A file that can't be read or holds no certificate.
pub fn upstream_tls(settings: &Settings, launch: &Launch) -> anyhow::Result<tls::Upstreams> {
    let mut trust = tls::Trust::default();
    for file in &settings.tls.trusted {
        match file {
            TrustedFile::System => trust.system = true,
            TrustedFile::Path(path) => {
                let read = stdx::file::read_text(&launch.resolve(path), stdx::file::CREDENTIALS_BYTES_MAX);
                trust.pem.push(read.with_context(|| unusable(path))?);
            }
        }
    }
    let unreadable = || "apisix.ssl.ssl_trusted_certificate can't be used";
    let upstreams = tls::Upstreams::new(trust.clone()).with_context(unreadable)?;
    // Secret managers, service registries and collectors of logs are trusted alike, as in APISIX.
    tls::trust_for_calls(trust);
    Ok(upstreams)
}

fn unusable(path: &Path) -> String {
    format!("apisix.ssl.ssl_trusted_certificate: {} can't be read", path.display())
}

/// The files that resources may name.
pub fn files(settings: &Settings, data_dir: &Path) -> FileAccess {
    let folders = |written: Option<&Vec<PathBuf>>| match written {
        None => Folders::everything(),
        Some(paths) => Folders::below(paths.iter().map(|path| data_dir.join(path))),
    };
    FileAccess {
        static_roots: folders(settings.files.static_roots.as_ref()),
        log_roots: folders(settings.files.log_roots.as_ref()),
    }
}

/// The zones that responses are kept in.
pub fn zones(settings: &Settings, launch: &Launch) -> cache::Zones {
    let mut specs = settings.proxy_cache.clone();
    for disk in specs.zones.iter_mut().filter_map(|zone| zone.disk.as_mut()) {
        disk.path = launch.resolve(&disk.path);
    }
    cache::Zones::new(specs)
}

/// How the data plane understands a request: what explaining one needs to know.
pub fn explain(settings: &Settings) -> admin::control::Setting {
    let proxy = &settings.proxy;
    admin::control::Setting {
        paths: PathRules {
            delete_tail_slash: proxy.delete_uri_tail_slash,
            like_servlet: proxy.normalize_uri_like_servlet,
            match_encoded_slash: proxy.match_uri_encoded_slash,
        },
        body: BodyLimits { fields: proxy.max_post_args_size, graphql: proxy.graphql_max_size },
    }
}

/// The Admin API's configuration.
pub fn admin(all: &Settings, settings: &settings::Admin) -> AdminSettings {
    let key = |key: &settings::AdminKey| AdminKey {
        name: key.name.clone(),
        key: key.key.clone(),
        role: match key.role {
            AdminRole::Admin => Role::Admin,
            AdminRole::Viewer => Role::Viewer,
        },
    };
    AdminSettings {
        keys: settings.keys.iter().map(key).collect(),
        key_required: settings.key_required,
        allow: settings.allow.clone(),
        version: match settings.version {
            AdminVersion::V2 => ApiVersion::V2,
            AdminVersion::V3 => ApiVersion::V3,
        },
        cors: settings.cors,
        streams: settings.streams,
        prefix: match &all.provider {
            Provider::Etcd(etcd) => etcd.prefix.clone(),
            _ => AdminSettings::default().prefix,
        },
        server: server_name(all),
        ..AdminSettings::default()
    }
}

/// What stands before keys where they are shown: etcd's prefix, APISIX's default of it, and nothing before those that
/// come from a document.
pub fn key_prefix(settings: &Settings) -> &str {
    match &settings.provider {
        Provider::Etcd(etcd) => &etcd.prefix,
        Provider::File(_) | Provider::Standalone => "",
        Provider::Embedded => "/apisix",
    }
}

/// The metrics' configuration.
pub fn metrics(settings: &Settings) -> MetricsConfig {
    MetricsConfig {
        prefix: settings.metrics.prefix.clone(),
        buckets_ms: settings.metrics.buckets.clone(),
        series_max: SERIES_DEFAULT,
    }
}

/// An access log's configuration; `None` where there is to be none.
pub fn access_log(log: Option<&settings::AccessLog>, launch: &Launch) -> Option<AccessLogConfig> {
    log.map(|log| AccessLogConfig {
        path: launch.resolve(&log.path),
        format: log.format.clone(),
        escape: match log.escape {
            Escape::Default => access_log::Escape::Default,
            Escape::Json => access_log::Escape::Json,
            Escape::None => access_log::Escape::None,
        },
        buffer: log.buffer,
    })
}

/// How routes are chosen.
pub fn router_mode(settings: &Settings) -> Mode {
    match settings.proxy.router {
        RouterKind::HostUri => Mode::HostUri,
        RouterKind::Uri => Mode::Uri,
        RouterKind::UriWithParameter => Mode::UriWithParameter,
    }
}

/// The plugins that the configuration names.
#[derive(Debug, Default)]
pub struct Plugins {
    /// Built in and named; all that are built in where none is named.
    pub used: Vec<PluginDef>,
    /// Built in and not named.
    pub disabled: Vec<Arc<str>>,
    /// Named and not built in.
    pub missing: Vec<String>,
}

/// What the host of Lua plugins is told.
pub fn lua(settings: &Settings, data_dir: &Path) -> lua::LuaSettings {
    let own = &settings.lua;
    let local_conf = serde_json::json!({
        "apisix": { "id": settings.proxy.id, "enable_admin": settings.admin.is_some(), "proxy_mode": "http" },
        "deployment": { "role": "traditional", "config_provider": "etcd" },
        "plugins": settings.plugins,
        "stream_plugins": settings.stream_plugins,
        "plugin_attr": settings.plugin_attr,
    });
    lua::LuaSettings {
        path: own.path.clone(),
        folder: own.plugins_dir.as_ref().map(|folder| data_dir.join(folder)),
        allow_code: own.allow_code,
        memory_bytes_max: own.memory_max,
        time_slice: own.time_slice,
        attributes: settings.plugin_attr.clone(),
        local_conf,
        shared_dicts: own.shared_dicts.clone(),
    }
}

/// Those of `all` that the configuration names.
/// One in Lua takes the place of a built-in one of its name.
pub fn plugins(mut all: Vec<PluginDef>, in_lua: Vec<PluginDef>, named: Option<&Vec<String>>) -> Plugins {
    for def in &in_lua {
        if all.iter().any(|built_in| built_in.name == def.name) {
            tracing::warn!(plugin = &*def.name, "a plugin in Lua takes the place of the built-in one");
        }
    }
    all.retain(|built_in| !in_lua.iter().any(|def| def.name == built_in.name));
    all.extend(in_lua);
    let Some(named) = named else { return Plugins { used: all, ..Plugins::default() } };
    let missing = named.iter().filter(|name| !all.iter().any(|def| *def.name == ***name));
    let missing = missing.cloned().collect();
    let (used, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|def| named.iter().any(|name| **name == *def.name));
    Plugins { used, disabled: others.into_iter().map(|def| def.name).collect(), missing }
}
