//! `apisix.*` and `graphql.*`: the data plane and the servers of the control plane.

use super::Kind::{Any, Bool, Integer, Ip, List, Network, Port, Section, Size, Text, Time, Words};
use super::{Key, key, nothing, section};

const ADDRESS: &[super::Kind] = &[Port, Section];
const STREAM_PORT: &[super::Kind] = &[Port, Text, Section];
const HEADER: &[super::Kind] = &[Bool, Words(&["v1", "v2"])];
const UNTIL: i64 = u32::MAX as i64;

pub(super) const KEYS: &[Key] = &[
    section("apisix", "the data plane, and the servers of the control plane"),
    key("apisix.node_listen", Any(&[Port, List(&Any(ADDRESS))]), "9080", "the ports of HTTP; 0 lets the kernel choose")
        .example("[{ip: 127.0.0.1, port: 9080}]"),
    key("apisix.node_listen[].ip", Ip, "", "the address; all of the machine where it is left out"),
    key("apisix.node_listen[].port", Port, "9080", "the port"),
    key("apisix.node_listen[].enable_http2", Bool, "", "refused: apisix.enable_http2 is for all ports, as in APISIX since 3.9"),
    key("apisix.id", Text, "", "what the gateway calls itself; generated and kept in the data directory by default")
        .example("gateway-1"),
    key("apisix.enable_admin", Bool, "true", "whether the Admin API is served").restart(),
    nothing("apisix.enable_admin_ui", Bool, "there is no dashboard", &["false"]),
    key("apisix.enable_dev_mode", Bool, "false", "one worker, for development").restart(),
    nothing("apisix.enable_reuseport", Bool, "each worker has a socket of its own (SO_REUSEPORT)", &["true"]),
    nothing("apisix.enable_debug", Bool, "debug.yaml is not read", &["false"]),
    key(
        "apisix.show_upstream_status_in_response_header",
        Bool,
        "false",
        "whether X-APISIX-Upstream-Status is in every response, and not in 5xx alone",
    ),
    key("apisix.enable_ipv6", Bool, "true", "whether ports without an address are those of IPv6 too"),
    key("apisix.enable_http2", Bool, "true", "HTTP/2 on all ports; without TLS for clients that begin with it"),
    key("apisix.enable_server_tokens", Bool, "true", "whether the Server field has the version"),
    key("apisix.extra_lua_path", Text, "", "where modules in Lua are, plugins among them: patterns with a question mark, separated by semicolons")
        .example("/etc/tidegate/lua/?.lua"),
    nothing("apisix.extra_lua_cpath", Text, "modules in C can't be loaded", &[""]),
    nothing("apisix.lua_module_hook", Text, "modules are loaded before the first request", &[""]),
    key("apisix.allow_code_in_config", Bool, "false", "whether functions in resources run; everybody who can write a resource can then run code in the gateway")
        .own(),
    section("apisix.lua", "plugins in Lua"),
    key("apisix.lua.plugins_dir", Text, "", "the folder whose .lua files are plugins; relative to the data directory")
        .example("plugins")
        .own(),
    key("apisix.lua.memory_max", Size, "128m", "the memory of one VM; each worker has one")
        .own(),
    key("apisix.lua.time_slice", Time, "50ms", "how long code may run before it waits or returns")
        .own(),
    section("apisix.proxy_cache", "the zones that the plugin proxy-cache keeps responses in"),
    key("apisix.proxy_cache.cache_ttl", Time, "10s", "how long a response without a lifetime is kept on disk").restart(),
    key(
        "apisix.proxy_cache.zones",
        List(&Section),
        "[{name: disk_cache_one, memory_size: 50m, disk_size: 1g, disk_path: /tmp/disk_cache_one, cache_levels: '1:2'}, \
         {name: memory_cache, memory_size: 50m}]",
        "the zones",
    )
    .restart(),
    key("apisix.proxy_cache.zones[].name", Text, "", "its name, which routes use").restart(),
    key("apisix.proxy_cache.zones[].memory_size", Size, "50m", "bytes in memory; of a zone on disk for its index").restart(),
    key("apisix.proxy_cache.zones[].disk_size", Size, "1g", "bytes on disk").restart(),
    key("apisix.proxy_cache.zones[].disk_path", Text, "", "the folder of a zone on disk").restart(),
    key("apisix.proxy_cache.zones[].cache_levels", Text, "'1:2'", "one to three of 1 and 2: how deep its folders are").restart(),
    section("apisix.proxy_protocol", "the PROXY protocol"),
    key("apisix.proxy_protocol.listen_http_port", Port, "", "a port of HTTP behind such proxies").example("9181"),
    key("apisix.proxy_protocol.listen_https_port", Port, "", "a port of HTTPS behind such proxies").example("9182"),
    key("apisix.proxy_protocol.enable_tcp_pp", Bool, "false", "whether all TCP ports of streams expect a header"),
    key(
        "apisix.proxy_protocol.enable_tcp_pp_to_upstream",
        Any(HEADER),
        "false",
        "whether all TCP ports of streams send a header to upstreams; true is version 1",
    ),
    key("apisix.proxy_mode", Words(&["http", "stream", "http&stream"]), "http", "what is served"),
    section("apisix.stream_proxy", "the ports of TCP and UDP; proxy_mode has to have streams"),
    key("apisix.stream_proxy.tcp", List(&Any(STREAM_PORT)), "", "ports, addresses with a port, and ranges of ports")
        .example("[{addr: 9100, tls: false, proxy_protocol: false, proxy_protocol_to_upstream: false}]"),
    key("apisix.stream_proxy.tcp[].addr", Any(&[Port, Text]), "", "the port, the address with a port, or the range"),
    key("apisix.stream_proxy.tcp[].tls", Bool, "false", "whether its connections are encrypted"),
    key("apisix.stream_proxy.tcp[].proxy_protocol", Bool, "", "whether it expects a header of the PROXY protocol"),
    key("apisix.stream_proxy.tcp[].proxy_protocol_to_upstream", Any(HEADER), "", "whether its upstreams get such a header"),
    key("apisix.stream_proxy.udp", List(&Any(&[Port, Text])), "", "likewise").example("[9200]"),
    key("apisix.delete_uri_tail_slash", Bool, "false", "whether a slash at the end of a path is ignored"),
    key("apisix.normalize_uri_like_servlet", Bool, "false", "whether paths are normalised as by Java servlets"),
    key("apisix.match_uri_encoded_slash", Bool, "false", "whether %2F in a path is matched as part of a segment"),
    key(
        "apisix.max_post_args_readable_size",
        Integer(0, UNTIL),
        "64",
        "megabytes of a body that conditions on post_arg read; 0 is no limit",
    ),
    section("apisix.router", "how routes are chosen"),
    key(
        "apisix.router.http",
        Words(&["radixtree_host_uri", "radixtree_uri", "radixtree_uri_with_parameter"]),
        "radixtree_host_uri",
        "by host and then path, or by path first",
    ),
    nothing("apisix.router.ssl", Text, "certificates are chosen by server name", &["radixtree_sni"]),
    key("apisix.static_roots", List(&Text), "[]", "absolute folders below which the roots of `static` may be").own(),
    key("apisix.log_roots", List(&Text), "[logs]", "folders below which file-logger may write").own(),
    key("apisix.dns_resolver", List(&Text), "", "name servers; those of /etc/resolv.conf by default")
        .restart()
        .example("[127.0.0.1]"),
    key("apisix.dns_resolver_valid", Integer(1, UNTIL), "", "seconds that DNS answers are valid; their TTL by default")
        .restart()
        .example("30"),
    key("apisix.resolver_timeout", Time, "5", "how long an answer of one name server is waited for").restart(),
    key(
        "apisix.enable_resolv_search_opt",
        Bool,
        "true",
        "whether the search list of /etc/resolv.conf completes names",
    )
    .restart(),
    key("apisix.enable_control", Bool, "true", "whether the control API is served").restart(),
    section("apisix.control", "the control API's address"),
    key("apisix.control.ip", Ip, "127.0.0.1", "the address").restart(),
    key("apisix.control.port", Port, "9090", "the port").restart(),
    nothing("apisix.control.router", Words(&["radixtree_uri"]), "its paths are fixed", &["radixtree_uri"]),
    key("apisix.enable_status", Bool, "true", "whether /status is served").restart().own(),
    section("apisix.status", "the address of /status and /status/ready"),
    key("apisix.status.ip", Ip, "127.0.0.1", "the address").restart(),
    key("apisix.status.port", Port, "7085", "the port").restart(),
    nothing("apisix.disable_sync_configuration_during_start", Bool, "a start loads the configuration first", &["false"]),
    nothing("apisix.worker_startup_time_threshold", Integer(0, UNTIL), "workers share one configuration", &["60"]),
    section("apisix.data_encryption", "secrets in stored resources"),
    key("apisix.data_encryption.enable_encrypt_fields", Bool, "true", "whether secret fields of plugins are encrypted").restart(),
    key(
        "apisix.data_encryption.keyring",
        Any(&[Text, List(&Text)]),
        "",
        "keys: the first encrypts, all decrypt; generated by default; with etcd nothing is encrypted by default",
    )
    .restart()
    .example("[a-key-of-16-bytes]"),
    key(
        "apisix.data_encryption.format",
        Words(&["aead", "apisix"]),
        "aead",
        "how values are encrypted: apisix is what APISIX reads",
    )
    .restart()
    .own(),
    key("apisix.disable_upstream_healthcheck", Bool, "false", "whether no upstream's health is checked"),
    key(
        "apisix.trusted_addresses",
        List(&Network),
        "",
        "peers whose X-Forwarded-* and Forwarded are believed; those of others are replaced",
    )
    .example("[10.0.0.0/8]"),
    nothing("apisix.events", super::Kind::Free, "workers share one process and need no events between them", &[]),
    section("apisix.lru", "caches"),
    section("apisix.lru.secret", "values behind references to secrets"),
    key("apisix.lru.secret.ttl", Integer(1, UNTIL), "300", "seconds until a value is asked for again").restart(),
    nothing("apisix.lru.secret.count", Integer(1, UNTIL), "every value in use is kept", &["512"]),
    key("apisix.lru.secret.neg_ttl", Integer(1, UNTIL), "60", "seconds until a value is asked for again after a failure").restart(),
    nothing("apisix.lru.secret.neg_count", Integer(1, UNTIL), "every failure in use is kept", &["512"]),
    nothing("apisix.tracing", Bool, "requests are not traced", &["false"]),
    section("graphql", "GraphQL"),
    key("graphql.max_size", Integer(1, UNTIL), "1048576", "bytes of a query that conditions read"),
];

pub(super) const SSL: &[Key] = &[
    section("apisix.ssl", "TLS with clients, and whom upstreams are trusted to be certified by"),
    key("apisix.ssl.enable", Bool, "true", "whether HTTPS is served"),
    key("apisix.ssl.listen", List(&Any(ADDRESS)), "[{port: 9443}]", "the ports of HTTPS")
        .example("[{ip: 127.0.0.1, port: 9443}]"),
    key("apisix.ssl.listen[].ip", Ip, "", "the address; all of the machine where it is left out"),
    key("apisix.ssl.listen[].port", Port, "9443", "the port"),
    nothing(
        "apisix.ssl.listen[].enable_http2",
        Bool,
        "apisix.enable_http2 is for all ports, as in APISIX since 3.9",
        &[],
    ),
    nothing("apisix.ssl.listen[].enable_http3", Bool, "HTTP/3 is not spoken", &["false"]),
    nothing("apisix.ssl.ssl_cert", Text, "certificates are ssl resources", &[""]),
    nothing("apisix.ssl.ssl_cert_key", Text, "certificates are ssl resources", &[""]),
    key(
        "apisix.ssl.ssl_trusted_certificate",
        Text,
        "system",
        "files in PEM, with commas between them: the authorities of upstreams; `system` is the system's",
    ),
    key("apisix.ssl.ssl_protocols", Any(&[Text, List(&Text)]), "TLSv1.2 TLSv1.3", "versions of TLS"),
    key(
        "apisix.ssl.ssl_ciphers",
        Text,
        "",
        "cipher suites in OpenSSL's notation; all that are safe by default",
    )
    .example("HIGH"),
    key(
        "apisix.ssl.ssl_session_tickets",
        Bool,
        "false",
        "whether clients keep their sessions; the gateway does by default",
    ),
    key(
        "apisix.ssl.fallback_sni",
        Text,
        "",
        "the name of clients that ask for none; they are refused by default",
    )
    .example("a.example.com"),
];
