//! What `config.yaml` comes to: every value typed, in base units, with its default filled in.
//!
//! The defaults are APISIX's (`apisix/cli/config.lua` of 3.18) unless the field says otherwise; the fields are grouped
//! by who uses them, and each names the key it comes from.

pub mod data_encryption;
pub mod defaults;
pub mod provider;
mod restart;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use data_encryption::DataEncryption;
use discovery::names::Asking;
use ipnet::IpNet;
use observe::error_log::Level;
use provider::{Provider, Role};
use wire::proxy_protocol::Version;

/// The settings of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Which parts of the gateway run (`deployment.role`).
    pub role: Role,
    /// Where its configuration comes from (`deployment.role_*.config_provider`, `deployment.etcd`).
    pub provider: Provider,
    /// What the data plane listens on and how it treats requests (`apisix`).
    pub proxy: Proxy,
    /// TLS with clients and upstreams (`apisix.ssl`).
    pub tls: Tls,
    /// Ports of HTTP whose connections begin with a PROXY protocol header (`apisix.proxy_protocol`).
    pub proxy_protocol: ProxyProtocol,
    /// TCP and UDP (`apisix.stream_proxy`, `nginx_config.stream`).
    pub streams: Streams,
    /// The process: workers, files, shutdown (`nginx_config`).
    pub process: Process,
    /// Limits and times of client and upstream connections (`nginx_config.http`).
    pub http: Http,
    /// Error log and access log.
    pub logs: Logs,
    /// The files that resources may name.
    pub files: Files,
    /// The Admin API; `None` where `apisix.enable_admin` is false.
    pub admin: Option<Admin>,
    /// Secrets in the store (`apisix.data_encryption`).
    pub data_encryption: DataEncryption,
    /// The zones that responses are kept in (`apisix.proxy_cache`).
    pub proxy_cache: cache::ZoneSpecs,
    /// Where the control API listens (`apisix.control`); `None` where `apisix.enable_control` is false.
    pub control: Option<SocketAddr>,
    /// Where `/status` is answered (`apisix.status`). On by default at 127.0.0.1:7085, unlike APISIX, which wants the
    /// section to be there; `apisix.enable_status: false` turns it off.
    pub status: Option<SocketAddr>,
    /// How metrics are exposed (`plugin_attr.prometheus`).
    pub metrics: Metrics,
    /// `plugins`: the plugins that may be configured. `None` means all that are built in.
    pub plugins: Option<Vec<String>>,
    /// `stream_plugins`, likewise.
    pub stream_plugins: Option<Vec<String>>,
    /// Plugins and functions in Lua (`apisix.lua`, `apisix.extra_lua_path`, `apisix.allow_code_in_config`,
    /// `nginx_config.http.custom_lua_shared_dict`).
    pub lua: Lua,
    /// `plugin_attr`: by plugin, what it alone understands.
    pub plugin_attr: serde_json::Map<String, serde_json::Value>,
    /// `discovery`: where the nodes of services are known.
    pub discovery: discovery::Config,
}

/// `apisix.static_roots` and `apisix.log_roots`, Tidegate's own keys. Resources come from the Admin API, etcd and files;
/// without these limits, whoever may write a resource reads and writes files as the gateway's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// `static_roots`: where the roots of `static` may be, absolute; none by default. `None` allows every folder: the
    /// command line gives all resources.
    pub static_roots: Option<Vec<PathBuf>>,
    /// `log_roots`: where `file-logger` may write; relative paths are below the data directory. `None` as above.
    pub log_roots: Option<Vec<PathBuf>>,
}

/// Plugins and functions in Lua.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lua {
    /// `apisix.extra_lua_path`: patterns of files, as in Lua's `package.path`.
    pub path: Vec<String>,
    /// `apisix.lua.plugins_dir`, Tidegate's own key: the folder whose files are plugins; relative to the data directory.
    pub plugins_dir: Option<PathBuf>,
    /// `apisix.allow_code_in_config`, Tidegate's own key: whether functions in resources are run. Whoever may write a
    /// resource runs code in the gateway then.
    pub allow_code: bool,
    /// `apisix.lua.memory_max`, Tidegate's own key: bytes of one VM, of which each worker has one.
    pub memory_max: usize,
    /// `apisix.lua.time_slice`, Tidegate's own key: how long code may run without waiting.
    pub time_slice: Duration,
    /// `nginx_config.http.lua_shared_dict` and `custom_lua_shared_dict`: names and bytes.
    pub shared_dicts: Vec<(String, usize)>,
}

impl Default for Lua {
    fn default() -> Self {
        Self {
            path: Vec::new(),
            plugins_dir: None,
            allow_code: false,
            memory_max: defaults::LUA_MEMORY,
            time_slice: defaults::LUA_TIME_SLICE,
            shared_dicts: Vec::new(),
        }
    }
}

/// One address of the data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// Where to listen; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// `[::]` that stands beside a `0.0.0.0` because of `enable_ipv6` and was not named: a machine without IPv6 may go
    /// without it.
    pub implied: bool,
}

/// `apisix.ssl`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tls {
    /// `listen`; empty where `enable` is false. No address stands twice.
    pub listen: Vec<Listen>,
    /// What is spoken with clients.
    pub options: tls::ServerOptions,
    /// `ssl_trusted_certificate`: whom upstreams that are verified may be certified by.
    pub trusted: Vec<TrustedFile>,
}

/// Authorities that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedFile {
    /// Those of the system.
    System,
    /// Those of a file in PEM, relative to the data directory.
    Path(PathBuf),
}

/// `apisix.proxy_protocol`, the part of HTTP. No address stands twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyProtocol {
    /// `listen_http_port`.
    pub http: Vec<Listen>,
    /// `listen_https_port`.
    pub https: Vec<Listen>,
}

/// TCP and UDP; empty where `proxy_mode` has no streams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Streams {
    /// `stream_proxy.tcp`, each range as its ports. No address stands twice.
    pub tcp: Vec<StreamListen>,
    /// `stream_proxy.udp`, likewise.
    pub udp: Vec<SocketAddr>,
    /// `nginx_config.stream.real_ip_from`: whose PROXY protocol headers are believed.
    pub real_ip_from: Vec<IpNet>,
}

/// A port of `stream_proxy.tcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamListen {
    /// `addr`.
    pub address: SocketAddr,
    /// `tls`.
    pub tls: bool,
    /// `proxy_protocol`, else `proxy_protocol.enable_tcp_pp`: whether connections begin with a header.
    pub proxy_protocol: bool,
    /// `proxy_protocol_to_upstream`, else `proxy_protocol.enable_tcp_pp_to_upstream`: the header that
    /// upstreams get, if any.
    pub proxy_protocol_to_upstream: Option<Version>,
}

/// `apisix.*`, the data plane's part.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    /// `id`: what the gateway calls itself; `None` for an id that it makes and keeps.
    pub id: Option<String>,
    /// `node_listen`, IPv6 addresses included. No address stands twice.
    pub listen: Vec<Listen>,
    /// `enable_http2`: HTTP/2 on all ports, without TLS for clients that begin with it.
    pub http2: bool,
    /// `enable_server_tokens`: whether the `Server` header tells the version.
    pub server_tokens: bool,
    /// `show_upstream_status_in_response_header`: always, and not for 5xx alone.
    pub show_upstream_status: bool,
    /// `delete_uri_tail_slash`.
    pub delete_uri_tail_slash: bool,
    /// `normalize_uri_like_servlet`.
    pub normalize_uri_like_servlet: bool,
    /// `match_uri_encoded_slash`.
    pub match_uri_encoded_slash: bool,
    /// `max_post_args_readable_size` in bytes; `usize::MAX` is without limit.
    pub max_post_args_size: usize,
    /// `graphql.max_size` in bytes.
    pub graphql_max_size: usize,
    /// `router.http`.
    pub router: RouterKind,
    /// `dns_resolver`, `resolver_timeout`, `dns_resolver_valid`, `enable_resolv_search_opt`.
    pub names: Asking,
    /// `trusted_addresses`: whose `X-Forwarded-*` and `Forwarded` are believed; empty where the key is absent, which leaves
    /// `X-Forwarded-For` in place and appends to it.
    pub trusted_addresses: Vec<IpNet>,
    /// `disable_upstream_healthcheck`.
    pub disable_healthcheck: bool,
}

/// `apisix.router.http`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterKind {
    /// Host first, then path (`radixtree_host_uri`).
    HostUri,
    /// Path first (`radixtree_uri`).
    Uri,
    /// Path first, with `:name` parameters (`radixtree_uri_with_parameter`).
    UriWithParameter,
}

/// `nginx_config.*`, the process's part.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// `worker_processes`; `None` is `auto`. `APISIX_WORKER_PROCESSES` in the environment goes before the file.
    pub workers: Option<usize>,
    /// `enable_cpu_affinity`: pin each worker to a core.
    pub cpu_affinity: bool,
    /// `worker_rlimit_nofile`: open files of the process.
    pub open_files: u64,
    /// `worker_shutdown_timeout`: how long a graceful stop may take; zero is without limit, as in nginx.
    pub shutdown_timeout: Duration,
    /// `on_panic`, Tidegate's own key: whether a worker or the builder of the configuration that panics ends the process
    /// (`exit`) instead of being replaced (`restart`).
    pub exits_on_panic: bool,
    /// `event.worker_connections`: client connections of one worker.
    pub worker_connections: usize,
}

/// `nginx_config.http.*`, all but the access log.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// `keepalive_timeout`: how long an idle client connection stays; zero closes after each response.
    pub keepalive_timeout: Duration,
    /// `keepalive_requests`: requests on one client connection. Tidegate's own key, nginx's default.
    pub keepalive_requests: u64,
    /// `ssl_handshake_timeout`: the time for a TLS handshake with a client, also on stream ports. Tidegate's own key, named
    /// as in nginx's stream module.
    pub ssl_handshake_timeout: Duration,
    /// `client_header_timeout`, for a whole head.
    pub client_header_timeout: Duration,
    /// `client_body_timeout`, between two reads.
    pub client_body_timeout: Duration,
    /// `client_max_body_size` in bytes; 0 is without limit.
    pub client_max_body_size: u64,
    /// `send_timeout`, between two writes to the client.
    pub send_timeout: Duration,
    /// `underscores_in_headers`: whether request fields with an underscore in their name are passed on.
    pub underscores_in_headers: bool,
    /// `real_ip_header`.
    pub real_ip_header: String,
    /// `real_ip_recursive`.
    pub real_ip_recursive: bool,
    /// `real_ip_from`, without `unix:`, which no client of ours can come from.
    pub real_ip_from: Vec<IpNet>,
    /// `upstream.*`.
    pub upstream: UpstreamPool,
}

/// `nginx_config.http.upstream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamPool {
    /// `keepalive`: idle connections kept by one worker.
    pub keepalive: usize,
    /// `keepalive_requests`: requests on one connection.
    pub keepalive_requests: u64,
    /// `keepalive_timeout`: how long a connection may be idle.
    pub keepalive_timeout: Duration,
}

/// The two logs. Relative paths are below the data directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Logs {
    /// `error_log`.
    pub error_log: PathBuf,
    /// Whether the file names an error log; where it does not, a gateway in the foreground logs to stderr as well.
    pub error_log_named: bool,
    /// `error_log_level`.
    pub level: Level,
    /// `nginx_config.http.access_log*`; `None` where `enable_access_log` is false.
    pub access: Option<AccessLog>,
    /// `nginx_config.stream.access_log*`; `None` unless `enable_access_log` is true there.
    pub streams: Option<AccessLog>,
}

/// `nginx_config.http.access_log*`.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// `access_log`.
    pub path: PathBuf,
    /// `access_log_buffer` in bytes.
    pub buffer: usize,
    /// `access_log_format`, nginx variables in it.
    pub format: String,
    /// `access_log_format_escape`.
    pub escape: Escape,
}

/// How values are escaped in the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// `\xHH` for `"`, `\` and bytes outside printable ASCII; `-` for what is absent.
    Default,
    /// As in JSON strings; empty for what is absent.
    Json,
    /// Not at all.
    None,
}

/// `deployment.admin.*`.
#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    /// `admin_listen`. 127.0.0.1:9180 by default; APISIX's is 0.0.0.0.
    pub listen: SocketAddr,
    /// Whether the data plane's ports answer the Admin API too. Only the quick start sets it.
    pub on_data_ports: bool,
    /// `admin_key_required`.
    pub key_required: bool,
    /// `admin_key`, without those whose key is left empty. The start adds a generated one where none has the admin role.
    pub keys: Vec<AdminKey>,
    /// `allow_admin`: who may connect; empty means everybody.
    pub allow: Vec<IpNet>,
    /// `admin_api_version`.
    pub version: AdminVersion,
    /// `enable_admin_cors`.
    pub cors: bool,
    /// `apisix.proxy_mode` has streams, so that there may be stream routes.
    pub streams: bool,
    /// `https_admin` with `admin_api_mtls`; `None`: the Admin API is in the clear.
    pub tls: Option<AdminTls>,
}

/// `deployment.admin.admin_api_mtls`: files in PEM, relative to the data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminTls {
    /// `admin_ssl_cert`: the certificate chain.
    pub cert: PathBuf,
    /// `admin_ssl_cert_key`: its private key.
    pub key: PathBuf,
    /// `admin_ssl_ca_cert`: the authorities that certify clients; `None`: clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// One of `admin_key`.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminKey {
    /// `name`.
    pub name: String,
    /// `key`: the secret.
    pub key: String,
    /// `role`.
    pub role: AdminRole,
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminRole {
    /// Read and write.
    Admin,
    /// Read only.
    Viewer,
}

/// `deployment.admin.admin_api_version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are APISIX's and say it all")]
pub enum AdminVersion {
    V2,
    V3,
}

/// `plugin_attr.prometheus`, the server's part.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    /// `export_addr`; `None` where `enable_export_server` is false.
    pub listen: Option<SocketAddr>,
    /// `export_uri`.
    pub uri: String,
    /// `metric_prefix`.
    pub prefix: String,
    /// `default_buckets`: the histogram's upper bounds in milliseconds, ascending.
    pub buckets: Vec<f64>,
}

/// Keys leave no trace in logs.
impl std::fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminKey").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// Port `port` of 127.0.0.1.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
