//! `deployment.*`: the role, the source of the configuration, the Admin API.

use super::Kind::{Any, Bool, Free, Integer, Ip, List, Network, Port, Section, Text, Time, Words};
use super::{Key, key, nothing, section};

const BY_PINGS: &str = "a connection is known to live by its pings, and opened again with pauses that grow";

pub(super) const KEYS: &[Key] = &[
    section("deployment", "the role, the source of the configuration, the Admin API"),
    key(
        "deployment.role",
        Words(&["traditional", "control_plane", "data_plane"]),
        "traditional",
        "which parts of the gateway run",
    )
    .restart(),
    section("deployment.role_traditional", "where that role has its configuration from"),
    key(
        "deployment.role_traditional.config_provider",
        Words(&["embedded", "etcd", "yaml", "json"]),
        "embedded",
        "a store of its own, etcd, or a standalone document; etcd is the default where deployment.etcd.host is named",
    )
    .restart(),
    section("deployment.role_control_plane", "where that role has its configuration from"),
    key("deployment.role_control_plane.config_provider", Words(&["etcd"]), "etcd", "etcd").restart(),
    section("deployment.role_data_plane", "where that role has its configuration from"),
    key("deployment.role_data_plane.config_provider", Words(&["etcd", "yaml", "json"]), "etcd", "etcd or a file").restart(),
    section("deployment.admin", "the Admin API"),
    key(
        "deployment.admin.admin_key_required",
        Bool,
        "true",
        "whether requests need a key; without, clients on this machine alone are answered",
    ),
    key("deployment.admin.admin_key", List(&Section), "[{name: admin, key: '', role: admin}]", "the keys"),
    key("deployment.admin.admin_key[].name", Text, "admin", "whose it is"),
    key("deployment.admin.admin_key[].key", Text, "''", "the key; an empty one is generated and kept in admin.key"),
    key("deployment.admin.admin_key[].role", Words(&["admin", "viewer"]), "admin", "a viewer may read"),
    key("deployment.admin.enable_admin_cors", Bool, "false", "whether web pages of other origins may call the API"),
    nothing("deployment.admin.enable_admin_ui", Bool, "there is no dashboard", &["false"]),
    key("deployment.admin.allow_admin", List(&Network), "[127.0.0.0/24]", "who may connect; an empty list is everybody"),
    section("deployment.admin.admin_listen", "its address"),
    key("deployment.admin.admin_listen.ip", Ip, "127.0.0.1", "the address").restart(),
    key("deployment.admin.admin_listen.port", Port, "9180", "the port").restart(),
    key("deployment.admin.https_admin", Bool, "false", "whether it is encrypted, with the files of admin_api_mtls")
        .example("true"),
    section("deployment.admin.admin_api_mtls", "its certificate, and whose clients it believes; read again at a reload"),
    key("deployment.admin.admin_api_mtls.admin_ssl_cert", Text, "", "the certificate chain (PEM)").example("admin.crt"),
    key("deployment.admin.admin_api_mtls.admin_ssl_cert_key", Text, "", "its private key (PEM)").example("admin.key.pem"),
    key(
        "deployment.admin.admin_api_mtls.admin_ssl_ca_cert",
        Text,
        "",
        "the authorities of client certificates (PEM); without, clients need none",
    )
    .example("clients.crt"),
    key("deployment.admin.admin_api_version", Words(&["v3", "v2", "default"]), "v3", "the form of answers; default is v2"),
    section("deployment.etcd", "the cluster that holds the configuration"),
    key("deployment.etcd.host", Any(&[Text, List(&Text)]), "", "its members; http://127.0.0.1:2379 by default")
        .restart()
        .example("[\"http://127.0.0.1:2379\"]"),
    key("deployment.etcd.prefix", Text, "/apisix", "what the keys begin with").restart(),
    key("deployment.etcd.timeout", Time, "30", "the time for one call, all members tried").restart(),
    nothing("deployment.etcd.watch_timeout", Integer(0, i64::MAX), BY_PINGS, &["50"]),
    nothing("deployment.etcd.resync_delay", Integer(0, i64::MAX), BY_PINGS, &["5"]),
    nothing("deployment.etcd.health_check_timeout", Integer(0, i64::MAX), BY_PINGS, &["10"]),
    nothing(
        "deployment.etcd.startup_retry",
        Integer(0, i64::MAX),
        "a start waits for etcd, or goes on with what the disk has",
        &["2"],
    ),
    key("deployment.etcd.user", Text, "", "who the gateway is to it").restart().example("root"),
    key("deployment.etcd.password", Text, "", "the password").restart().example("secret"),
    section("deployment.etcd.tls", "TLS with it, for hosts at https://"),
    key("deployment.etcd.tls.cert", Text, "", "the gateway's certificate (PEM)").restart().example("etcd.crt"),
    key("deployment.etcd.tls.key", Text, "", "its private key (PEM)").restart().example("etcd.key"),
    key("deployment.etcd.tls.verify", Bool, "true", "whether its certificate is verified").restart(),
    key("deployment.etcd.tls.sni", Text, "", "the name to ask for; the host's by default").restart().example("etcd.example"),
    nothing("deployment.certs", Free, "deployment.etcd.tls and deployment.admin name the certificates", &[]),
];
