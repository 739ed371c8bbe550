//! `nginx_config.*`: the process, and the limits and logs of HTTP and of streams.

use super::Kind::{Any, Bool, Free, Integer, List, Network, Number, Size, Switch, Text, Time, Words};
use super::{Key, key, nothing, section};

const LEVELS: &[&str] = &["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"];
const ESCAPES: &[&str] = &["default", "json", "none"];
const NO_LUA: &str = "the dictionaries that Lua plugins share have a fixed size";
const NO_NGINX: &str = "there is no nginx to configure; look for a key or a plugin that does the same";

pub(super) const KEYS: &[Key] = &[
    section("nginx_config", "the process, and the limits and logs of HTTP and of streams"),
    key(
        "nginx_config.user",
        Text,
        "",
        "the user that the gateway is to run as; it does not change its user, so a start as root with another one is refused",
    ),
    key(
        "nginx_config.error_log",
        Text,
        "",
        "the error log; logs/error.log in the data directory by default, and stderr in the foreground",
    )
    .restart()
    .example("logs/error.log"),
    key("nginx_config.error_log_level", Words(LEVELS), "notice", "which messages are logged"),
    key(
        "nginx_config.worker_processes",
        Any(&[Words(&["auto"]), Integer(1, 1024)]),
        "auto",
        "workers, each a thread; auto is one for each core that affinity and cgroup grant",
    )
    .restart(),
    key("nginx_config.enable_cpu_affinity", Bool, "false", "whether each worker is pinned to a core")
        .restart(),
    key(
        "nginx_config.worker_rlimit_nofile",
        Integer(1, i64::MAX),
        "20480",
        "files that the process may open; a lower number waits for a restart",
    ),
    nothing(
        "nginx_config.worker_rlimit_core",
        Any(&[Size, Number]),
        "the size of core dumps is the system's",
        &[],
    ),
    key(
        "nginx_config.worker_shutdown_timeout",
        Time,
        "240s",
        "how long requests may take when the gateway ends; 0 is no limit",
    ),
    key(
        "nginx_config.on_panic",
        Words(&["restart", "exit"]),
        "restart",
        "what becomes of a worker or of the builder of the configuration that panics: it is replaced, or the process ends",
    ),
    nothing(
        "nginx_config.max_pending_timers",
        Integer(0, i64::MAX),
        "there are no timers of Lua",
        &["16384"],
    ),
    nothing("nginx_config.max_running_timers", Integer(0, i64::MAX), "there are no timers of Lua", &["4096"]),
    section("nginx_config.event", "connections"),
    key(
        "nginx_config.event.worker_connections",
        Integer(1, i64::MAX),
        "10620",
        "client connections of one worker",
    ),
    nothing("nginx_config.envs", List(&Text), "the environment is the process's", &[]),
    nothing("nginx_config.meta", Free, NO_LUA, &[]),
    nothing("nginx_config.main_configuration_snippet", Text, NO_NGINX, &[""]),
    nothing("nginx_config.http_configuration_snippet", Text, NO_NGINX, &[""]),
    nothing("nginx_config.http_server_configuration_snippet", Text, NO_NGINX, &[""]),
    nothing("nginx_config.http_server_location_configuration_snippet", Text, NO_NGINX, &[""]),
    nothing("nginx_config.http_admin_configuration_snippet", Text, NO_NGINX, &[""]),
    nothing("nginx_config.http_end_configuration_snippet", Text, NO_NGINX, &[""]),
    nothing("nginx_config.stream_configuration_snippet", Text, NO_NGINX, &[""]),
];

pub(super) const HTTP: &[Key] = &[
    section("nginx_config.http", "limits, times and the access log of HTTP"),
    key("nginx_config.http.enable_access_log", Bool, "true", "whether requests are logged"),
    key(
        "nginx_config.http.access_log",
        Text,
        "logs/access.log",
        "the access log; relative to the data directory",
    ),
    key(
        "nginx_config.http.access_log_buffer",
        Size,
        "16384",
        "bytes that a worker gathers before they are written",
    ),
    key(
        "nginx_config.http.access_log_format",
        Text,
        "'$remote_addr - $remote_user [$time_local] $http_host \"$request\" $status $body_bytes_sent $request_time \
         \"$http_referer\" \"$http_user_agent\" $upstream_addr $upstream_status $upstream_response_time \
         \"$upstream_scheme://$upstream_host$upstream_uri\" \"$apisix_request_id\"'",
        "a line of it, with variables",
    ),
    key("nginx_config.http.access_log_format_escape", Words(ESCAPES), "default", "how values are escaped"),
    key("nginx_config.http.keepalive_timeout", Time, "60s", "how long an idle client connection stays"),
    key(
        "nginx_config.http.keepalive_requests",
        Integer(1, i64::MAX),
        "1000",
        "requests on one client connection",
    )
    .own(),
    key("nginx_config.http.ssl_handshake_timeout", Time, "10s", "the time for a TLS handshake with a client")
        .own(),
    key("nginx_config.http.client_header_timeout", Time, "60s", "the time for a request's head"),
    key(
        "nginx_config.http.client_body_timeout",
        Time,
        "60s",
        "the time between two reads of a request's body",
    ),
    key("nginx_config.http.client_max_body_size", Size, "0", "bytes of a request's body; 0 is no limit"),
    key("nginx_config.http.send_timeout", Time, "10s", "the time between two writes to a client"),
    key(
        "nginx_config.http.underscores_in_headers",
        Switch,
        "\"on\"",
        "whether request fields with an underscore in their name are passed on; they are dropped with off",
    ),
    key(
        "nginx_config.http.large_client_header_buffers",
        Text,
        "4 8k",
        "the limits of a request's head, which are fixed: 32 KiB, each line 8 KiB; larger ones are refused",
    ),
    key(
        "nginx_config.http.real_ip_header",
        Text,
        "X-Real-IP",
        "the field in which a proxy names its client, or proxy_protocol",
    ),
    key(
        "nginx_config.http.real_ip_recursive",
        Switch,
        "\"off\"",
        "whether known proxies in that field are passed over",
    ),
    key("nginx_config.http.real_ip_from", List(&Network), "[127.0.0.1]", "proxies that are believed"),
    nothing(
        "nginx_config.http.proxy_ssl_server_name",
        Bool,
        "upstreams are asked for by name (SNI)",
        &["true"],
    ),
    section("nginx_config.http.upstream", "idle connections to upstreams"),
    key(
        "nginx_config.http.upstream.keepalive",
        Integer(0, i64::MAX),
        "320",
        "idle connections that one worker keeps",
    ),
    key(
        "nginx_config.http.upstream.keepalive_requests",
        Integer(1, i64::MAX),
        "1000",
        "requests on one connection",
    ),
    key("nginx_config.http.upstream.keepalive_timeout", Time, "60s", "how long a connection may be idle"),
    nothing(
        "nginx_config.http.charset",
        Text,
        "files of text are said to be UTF-8, and upstreams say it themselves",
        &["utf-8"],
    ),
    nothing(
        "nginx_config.http.variables_hash_max_size",
        Integer(0, i64::MAX),
        "there is no table of variables",
        &["2048"],
    ),
    nothing("nginx_config.http.lua_shared_dict", Free, NO_LUA, &[]),
    key(
        "nginx_config.http.custom_lua_shared_dict",
        Free,
        "",
        "by name, the size of a dictionary that Lua plugins share",
    ),
];

pub(super) const STREAM: &[Key] = &[
    section("nginx_config.stream", "TCP and UDP"),
    key(
        "nginx_config.stream.real_ip_from",
        List(&Network),
        "[]",
        "peers whose PROXY protocol headers are believed",
    ),
    key("nginx_config.stream.enable_access_log", Bool, "false", "whether sessions are logged"),
    key(
        "nginx_config.stream.access_log",
        Text,
        "logs/access_stream.log",
        "their log; relative to the data directory",
    ),
    key(
        "nginx_config.stream.access_log_buffer",
        Size,
        "16384",
        "bytes that a worker gathers before they are written",
    )
    .own(),
    key(
        "nginx_config.stream.access_log_format",
        Text,
        "'$remote_addr [$time_local] $protocol $status $bytes_sent $bytes_received $session_time'",
        "a line of it, with variables",
    ),
    key("nginx_config.stream.access_log_format_escape", Words(ESCAPES), "default", "how values are escaped"),
    nothing("nginx_config.stream.lua_shared_dict", Free, NO_LUA, &[]),
    nothing("nginx_config.stream.metrics_zone_size", Size, "metrics of streams need no zone", &[]),
];
