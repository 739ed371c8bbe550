use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddr};

use super::settings::{Listen, loopback};
use super::{BuiltIn, Context, Loaded, Settings, read_text};
use document::{Diagnostic, Report, Severity};

fn no_variables(_: &str) -> Option<String> {
    None
}

fn read(text: &str) -> Result<Loaded, Report> {
    let names = |all: Vec<plugin::PluginDef>| all.iter().map(|def| def.name.to_string()).collect::<Vec<_>>();
    let (plugins, stream_plugins) = (names(plugins::all()), names(plugins::stream()));
    let built_in = BuiltIn { plugins: &plugins, stream_plugins: &stream_plugins, ..BuiltIn::default() };
    super::read("conf/config.yaml", text, &Context { built_in, ..Context::new(&no_variables) })
}

fn settings(text: &str) -> Settings {
    read(text).unwrap_or_else(|report| panic!("{report}")).settings
}

fn errors(text: &str) -> Vec<Diagnostic> {
    let mut problems = read(text).map(|loaded| loaded.settings).expect_err(text).diagnostics;
    problems.retain(|problem| problem.severity == Severity::Error);
    problems
}

fn listen(address: &str, implied: bool) -> Listen {
    Listen { address: address.parse().unwrap(), implied }
}

#[test]
fn an_empty_file_gives_the_defaults() {
    for text in ["", "# only a comment\n", "apisix:\nnginx_config:\ndeployment:\n", "{}"] {
        let settings = settings(text);
        assert_eq!(settings.proxy.listen, [listen("0.0.0.0:9080", false), listen("[::]:9080", true)]);
        let admin = settings.admin.expect("the Admin API is on");
        assert_eq!((admin.listen, admin.keys.len(), admin.key_required), (loopback(9180), 0, true));
        assert_eq!(settings.control, Some(loopback(9090)));
        assert_eq!(settings.status, Some(loopback(7085)));
        assert_eq!(settings.metrics.listen, Some(loopback(9091)));
        assert_eq!(settings.process.workers, None);
        assert_eq!(settings.process.open_files, 20_480);
        assert_eq!(settings.plugins, None);
    }
}

#[test]
fn node_listen_has_three_forms() {
    let cases = [
        ("9081", vec![listen("0.0.0.0:9081", false), listen("[::]:9081", true)]),
        ("'9081'", vec![listen("0.0.0.0:9081", false), listen("[::]:9081", true)]),
        ("[9081, 9081]", vec![listen("0.0.0.0:9081", false), listen("[::]:9081", true)]),
        ("[{ip: 127.0.0.2, port: 9082}]", vec![listen("127.0.0.2:9082", false)]),
        ("[{ip: '[::1]'}]", vec![listen("[::1]:9080", false)]),
        ("[{port: 9082}]", vec![listen("0.0.0.0:9082", false), listen("[::]:9082", true)]),
        ("0", vec![listen("0.0.0.0:0", false)]),
    ];
    for (value, expected) in cases {
        assert_eq!(settings(&format!("apisix:\n  node_listen: {value}\n")).proxy.listen, expected, "{value}");
    }
    let text = "apisix:\n  node_listen: 9081\n  enable_ipv6: false\n";
    assert_eq!(settings(text).proxy.listen, [listen("0.0.0.0:9081", false)]);
}

/// (file, line, column, path, a part of the message)
type ErrorCase = (&'static str, u32, u32, &'static str, &'static str);

const ERRORS: &[ErrorCase] = &[
    ("apisix:\n  node_listen: abc\n", 2, 16, "apisix.node_listen", "the string \"abc\""),
    ("apisix:\n  node_listen:\n    - 9080\n    - 99999\n", 4, 7, "apisix.node_listen[1]", "0 to 65535"),
    ("apisix:\n  node_listen:\n    - ip: nowhere\n", 3, 11, "apisix.node_listen[0].ip", "an IP address"),
    (
        "apisix:\n  node_listen:\n    - enable_http2: true\n",
        3,
        21,
        "apisix.node_listen[0].enable_http2",
        "one port",
    ),
    ("apisix: 5\n", 1, 9, "apisix", "expected a mapping, found the number 5"),
    ("- a\n", 1, 1, "", "expected a mapping, found a list"),
    ("apisix:\n  enable_admin: 'true'\n", 2, 17, "apisix.enable_admin", "true or false"),
    ("apisix:\n  router:\n    http: radixtree_url\n", 3, 11, "apisix.router.http", "radixtree_uri"),
    ("apisix:\n  dns_resolver: 1.1.1.1\n", 2, 17, "apisix.dns_resolver", "a list"),
    ("apisix:\n  trusted_addresses: [10.0.0.0/99]\n", 2, 23, "apisix.trusted_addresses[0]", "CIDR"),
    ("apisix:\n  control:\n    port: 9080\n", 3, 11, "apisix.control.port", "both want port 9080"),
    ("apisix:\n  node_listen: 9180\n", 2, 16, "apisix.node_listen", "the Admin API both want port 9180"),
    ("apisix:\n  dns_resolver:\n    - ${{NO_SUCH}}\n", 3, 7, "apisix.dns_resolver[0]", "NO_SUCH is not set"),
    ("nginx_config:\n  worker_processes: many\n", 2, 21, "nginx_config.worker_processes", "auto"),
    ("nginx_config:\n  worker_processes: 0\n", 2, 21, "nginx_config.worker_processes", "1 to 1024"),
    (
        "nginx_config:\n  worker_shutdown_timeout: 1x\n",
        2,
        28,
        "nginx_config.worker_shutdown_timeout",
        "a time",
    ),
    ("nginx_config:\n  on_panic: abort\n", 2, 13, "nginx_config.on_panic", "restart"),
    ("nginx_config:\n  error_log_level: warning\n", 2, 20, "nginx_config.error_log_level", "warn"),
    ("nginx_config:\n  error_log: syslog:server=a\n", 2, 14, "nginx_config.error_log", "syslog"),
    (
        "nginx_config:\n  http:\n    access_log_format: 5\n",
        3,
        24,
        "nginx_config.http.access_log_format",
        "a string",
    ),
    (
        "nginx_config:\n  http:\n    client_max_body_size: 1t\n",
        3,
        27,
        "nginx_config.http.client_max_body_size",
        "size",
    ),
    (
        "nginx_config:\n  http:\n    underscores_in_headers: maybe\n",
        3,
        29,
        "nginx_config.http.underscores_in_headers",
        "\"on\" or \"off\"",
    ),
    (
        "nginx_config:\n  http:\n    large_client_header_buffers: 8k\n",
        3,
        34,
        "nginx_config.http.large_client_header_buffers",
        "4 8k",
    ),
    ("deployment:\n  role: data_plain\n", 2, 9, "deployment.role", "one of traditional"),
    (
        "deployment:\n  role_traditional:\n    config_provider: embeded\n",
        3,
        22,
        "deployment.role_traditional.config_provider",
        "one of embedded",
    ),
    (
        "deployment:\n  admin:\n    https_admin: true\n",
        3,
        18,
        "deployment.admin.https_admin",
        "a certificate",
    ),
    ("apisix:\n  trusted_addresses: []\n", 2, 22, "apisix.trusted_addresses", "no address"),
    (
        "nginx_config:\n  http:\n    large_client_header_buffers: 4 16k\n",
        3,
        34,
        "nginx_config.http.large_client_header_buffers",
        "can't be larger",
    ),
    (
        "deployment:\n  admin:\n    admin_key:\n      - {name: a, key: b, role: root}\n",
        4,
        33,
        "deployment.admin.admin_key[0].role",
        "one of admin, viewer",
    ),
    (
        "deployment:\n  admin:\n    admin_key: [{role: viewer, key: ''}]\n",
        3,
        37,
        "deployment.admin.admin_key[0].key",
        "must not be empty",
    ),
    (
        "deployment:\n  admin: {admin_listen: {ip: 0.0.0.0},\n    admin_key: [{key: edd1c9f034335f136f87ad84b625c8f1}]}\n",
        3,
        23,
        "deployment.admin.admin_key[0].key",
        "public examples",
    ),
    ("plugins: limit-count\n", 1, 10, "plugins", "a list"),
    (
        "plugin_attr:\n  prometheus:\n    default_buckets: [1, 5, 2]\n",
        3,
        29,
        "plugin_attr.prometheus.default_buckets[2]",
        "ascend",
    ),
    (
        "plugin_attr:\n  prometheus:\n    metric_prefix: a-b\n",
        3,
        20,
        "plugin_attr.prometheus.metric_prefix",
        "a-b",
    ),
    ("apisix:\n  enable_admin: [\n", 2, 17, "", "not valid YAML"),
];

#[test]
fn every_error_has_its_place_its_path_and_a_hint() {
    for (text, line, column, path, message) in ERRORS {
        let found = errors(text);
        assert_eq!(found.len(), 1, "{text}\n{found:?}");
        let problem = &found[0];
        let at = problem.at.unwrap_or_else(|| panic!("{text}\n{problem:?}"));
        assert_eq!(
            (at.line, at.column, problem.path.as_str()),
            (*line, *column, *path),
            "{text}\n{problem:?}"
        );
        assert!(problem.message.contains(message), "{text}\n{problem:?}");
        assert!(problem.hint.as_ref().is_some_and(|hint| !hint.is_empty()), "{text}\n{problem:?}");
    }
}

#[test]
fn the_word_that_was_meant_is_suggested() {
    for (text, hint) in [
        ("deployment:\n  role: data_plain\n", "did you mean data_plane?"),
        ("apisix:\n  router:\n    http: radixtree_url\n", "did you mean radixtree_uri?"),
    ] {
        assert_eq!(errors(text)[0].hint.as_deref(), Some(hint), "{text}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "apisix:\n  node_listen: x\n  nodelisten: 1\nnginx_config:\n  error_log_level: loud\n";
    let report = read(text).expect_err("two errors and a warning");
    assert_eq!(
        report.to_string(),
        "conf/config.yaml:2:16: error: apisix.node_listen: expected an integer from 0 to 65535, found the string \"x\" [TG0203]\n  \
           hint: write an integer from 0 to 65535, without a unit\n\
         conf/config.yaml:3:3: warning: apisix.nodelisten: unknown key, ignored [TG0201]\n  \
           hint: did you mean node_listen?\n\
         conf/config.yaml:5:20: error: nginx_config.error_log_level: expected one of debug, info, notice, warn, error, \
           crit, alert, emerg, found \"loud\" [TG0204]\n  \
           hint: write one of debug, info, notice, warn, error, crit, alert, emerg"
    );
    assert_eq!(report.errors(), 2);
}

#[test]
fn variables_take_the_type_that_is_asked_for() {
    let lookup = |name: &str| match name {
        "NUMBER" => Some("12345".to_owned()),
        "YES" => Some("true".to_owned()),
        _ => None,
    };
    let text = "apisix:\n  node_listen: ${{NUMBER}}\n  enable_ipv6: '${{NO:=false}}'\n\
                deployment:\n  admin:\n    admin_key:\n      - {name: a, key: '${{NUMBER}}', role: admin}\n\
                plugin_attr:\n  some:\n    a: ${{NUMBER}}\n    b: ${{YES}}\n    c: n${{NUMBER}}\n";
    let settings = read_text("f", text, &lookup).unwrap_or_else(|report| panic!("{report}")).settings;
    assert_eq!(settings.proxy.listen[0].address.port(), 12345);
    assert_eq!(settings.proxy.listen.len(), 1);
    assert_eq!(settings.admin.unwrap().keys[0].key, "12345");
    assert_eq!(
        serde_json::Value::Object(settings.plugin_attr),
        serde_json::json!({"some": {"a": 12345, "b": true, "c": "n12345"}})
    );
}

#[test]
fn the_number_of_workers_may_come_from_the_environment() {
    for (value, expected) in [("3", Ok(Some(3))), ("0", Err(())), ("x", Err(()))] {
        let lookup = |name: &str| (name == "APISIX_WORKER_PROCESSES").then(|| value.to_owned());
        let read = read_text("the environment", "nginx_config: {worker_processes: 5}", &lookup);
        assert_eq!(read.map(|loaded| loaded.settings.process.workers).map_err(|_| ()), expected);
    }
    assert_eq!(
        settings("apisix: {enable_dev_mode: true}\nnginx_config: {worker_processes: 5}").process.workers,
        Some(1)
    );
}

#[test]
fn emptied_lists_and_servers_turned_off() {
    let settings = settings(
        "apisix:\n  enable_control: false\n  enable_status: false\n\
         nginx_config:\n  http:\n    real_ip_from:\n    enable_access_log: false\n\
         deployment:\n  admin:\n    allow_admin:\nplugins:\nplugin_attr:\n  prometheus:\n    enable_export_server: false\n",
    );
    assert_eq!((settings.control, settings.status, settings.metrics.listen), (None, None, None));
    assert!(settings.http.real_ip_from.is_empty());
    assert!(settings.logs.access.is_none());
    assert!(settings.admin.unwrap().allow.is_empty());
    assert_eq!(settings.plugins, Some(Vec::new()));
    assert_eq!(read("apisix: {enable_admin: false}").unwrap().settings.admin, None);
}

#[test]
fn warnings_do_not_refuse_the_start() {
    let cases = [
        ("apisix:\n  enable_reuseport: false\n", 2, 3),
        ("nginx_config:\n  http:\n    large_client_header_buffers: 2 4k\n", 3, 34),
        ("deployment:\n  admin:\n    admin_api_mtls: {admin_ssl_cert: a}\n", 3, 21),
        ("deployment:\n  admin:\n    admin_listen: {ip: 0.0.0.0}\n    admin_key_required: false\n", 4, 25),
    ];
    for (text, line, column) in cases {
        let warnings = read(text).unwrap_or_else(|report| panic!("{report}")).warnings.diagnostics;
        assert_eq!(warnings.len(), 1, "{text}");
        let at = warnings[0].at.unwrap();
        assert_eq!((at.line, at.column), (line, column), "{text}");
    }
}

#[test]
fn what_a_start_would_only_log_is_found_in_the_file() {
    for (text, line, column, words) in [
        ("plugins:\n  - prometheus\n  - limit-cuont\n", 3, 5, "did you mean limit-count?"),
        ("plugins: [prometheus, skywalking]\n", 1, 10, "not built in are left out: skywalking"),
        ("stream_plugins: [ip-restrictoin]\n", 1, 18, "did you mean ip-restriction?"),
        (
            "nginx_config:\n  http:\n    access_log_format: $remote_adr $status\n",
            3,
            24,
            "empty unless a plugin sets them: $remote_adr",
        ),
        ("deployment: {admin: {admin_key_required: false}}\n", 1, 42, "without a key"),
        (
            "plugin_attr: {prometheus: {metrics: {http_status: {extra_labels: [a]}}}}\n",
            1,
            28,
            "no extra labels",
        ),
    ] {
        let warnings = read(text).unwrap_or_else(|report| panic!("{report}")).warnings;
        assert_eq!(warnings.diagnostics.len(), 1, "{text}: {warnings}");
        let at = warnings.diagnostics[0].at.unwrap();
        assert_eq!((at.line, at.column), (line, column), "{warnings}");
        assert!(warnings.to_string().contains(words), "{warnings}");
    }
    let known = "nginx_config: {stream: {access_log_format: '$protocol $session_time $upstream_addr'}}\nplugins: [gzip]\n";
    assert!(read(known).unwrap().warnings.diagnostics.is_empty());
}

#[test]
fn a_mistake_that_two_readers_meet_is_one_line() {
    assert_eq!(errors("apisix: {enable_http2: 'true'}\n").len(), 1);
}

#[test]
fn keys_never_appear_in_debug_output() {
    let settings = settings("deployment: {admin: {admin_key: [{name: a, key: s3cret, role: admin}]}}");
    assert!(!format!("{settings:?}").contains("s3cret"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let path = Some("no/such/config.yaml".as_ref());
    let report = super::load(path, &Context::new(&no_variables)).expect_err("there is no file");
    assert!(
        report.to_string().starts_with("no/such/config.yaml: error: the configuration can't be read: "),
        "{report}"
    );
}

#[test]
fn two_wildcards_and_a_specific_address_conflict() {
    let found = errors("apisix:\n  node_listen: [{ip: 127.0.0.1, port: 9090}]\n");
    assert!(found[0].message.contains("the control API"));
    let other = settings("apisix:\n  node_listen: [{ip: 127.0.0.2, port: 9090}]\n").proxy.listen;
    assert_eq!(other[0].address, SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 9090)));
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = read(&text);
    }

    /// Known keys with values of any kind reach every reader.
    #[test]
    fn no_value_at_a_known_key_panics(
        key in prop::sample::select(vec![
            "node_listen", "control", "status", "router", "http", "upstream", "admin", "admin_key", "admin_listen",
            "prometheus", "default_buckets", "worker_processes", "keepalive_timeout", "client_max_body_size",
            "large_client_header_buffers", "allow_admin", "resolver_timeout",
        ]),
        section in prop::sample::select(vec![
            "apisix", "nginx_config", "nginx_config: {http", "deployment: {admin", "plugin_attr", "plugin_attr: {prometheus",
        ]),
        value in "(-?[0-9]{1,25}|[0-9]{0,20}[a-z]{0,2}|\\[[0-9a-z, ]{0,10}\\]|\\{[a-z]{1,4}: [0-9.]{0,5}\\}|\\.inf|\\.nan|1e308)",
    ) {
        let braces = "}".repeat(1 + section.matches('{').count());
        let _ = read(&format!("{section}: {{{key}: {value}{braces}\n"));
    }
}
