//! One verdict: `test`, `config validate`, a start and a reload accept the same documents.

use e2e::{Gateway, Peer, Spec, binary, eventually, free_ports};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a subcommand and returns whether it succeeds, and what it prints.
fn tidegate(dir: &Path, arguments: &str) -> (bool, String) {
    let mut command = Command::new(binary());
    command.current_dir(dir).args(arguments.split(' ')).stdin(Stdio::null());
    command.env_remove("TIDEGATE_DATA_DIR").env_remove("APISIX_WORKER_PROCESSES").env_remove("NO_SUCH");
    let output = command.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

/// What is merged into the configuration of a gateway, and whether it may be used.
fn configurations() -> Vec<(Value, bool)> {
    vec![
        (json!({}), true),
        (json!({ "apisix": { "node_lisen": 1 } }), true),
        (json!({ "apisix": { "enable_http2": "true" } }), false),
        (json!({ "apisix": { "router": { "http": "radixtree_host_uri" } } }), true),
        (json!({ "apisix": { "router": { "http": "radixtree" } } }), false),
        (json!({ "apisix": { "trusted_addresses": ["10.0.0.0/8"] } }), true),
        (json!({ "apisix": { "trusted_addresses": ["10.0.0.0/99"] } }), false),
        (json!({ "apisix": { "ssl": { "ssl_protocols": "TLSv1.1" } } }), false),
        (json!({ "apisix": { "ssl": { "ssl_protocols": "TLSv1.2", "ssl_ciphers": "NONE-AT-ALL" } } }), false),
        (json!({ "apisix": { "ssl": { "ssl_trusted_certificate": "/no/such/ca.pem" } } }), false),
        (json!({ "apisix": { "ssl": { "ssl_trusted_certificate": "system" } } }), true),
        (json!({ "apisix": { "static_roots": ["relative"] } }), false),
        (json!({ "nginx_config": { "worker_shutdown_timeout": "1x" } }), false),
        (json!({ "nginx_config": { "worker_shutdown_timeout": "1h 30m" } }), true),
        (json!({ "nginx_config": { "http": { "send_timeout": "1.5s" } } }), false),
        (json!({ "nginx_config": { "http": { "client_max_body_size": "1t" } } }), false),
        (json!({ "nginx_config": { "http": { "access_log_format": "$nothing_such" } } }), true),
        (json!({ "nginx_config": { "error_log_level": "${{NO_SUCH}}" } }), false),
        (json!({ "nginx_config": { "error_log_level": "${{NO_SUCH:=info}}" } }), true),
        (json!({ "deployment": { "admin": { "https_admin": true } } }), false),
        (
            json!({ "deployment": { "admin": { "https_admin": true,
                "admin_api_mtls": { "admin_ssl_cert": "/no/cert", "admin_ssl_cert_key": "/no/key" } } } }),
            false,
        ),
        (json!({ "deployment": { "admin": { "admin_key": [{ "name": "v", "role": "viewer" }] } } }), false),
        (json!({ "plugins": ["prometheus", "no-such-plugin"] }), true),
        (json!({ "plugins": "prometheus" }), false),
        (json!({ "plugin_attr": { "prometheus": { "default_buckets": [2, 1] } } }), false),
        (json!({ "discovery": { "dns": { "servers": ["127.0.0.1:1"] } } }), true),
        (json!({ "discovery": { "dns": { "servers": [5] } } }), false),
    ]
}

#[test]
fn a_configuration_is_accepted_by_test_start_and_reload_alike() {
    let mut running = Gateway::start();
    for (config, accepted) in configurations() {
        // A reload says so in the error log, and in the file that `tidegate reload` reads.
        let said = running.reload(&config);
        assert_eq!(!said.contains("nothing changes"), accepted, "reload of {config}: {said}");
        // The same text to `test` and to a start.
        let (tested, told) = tidegate(running.dir(), "test -c config.yaml --data-dir data");
        assert_eq!(tested, accepted, "test of {config}: {told}");
        let spec = Spec { config: config.clone(), ..Spec::default() };
        let started = std::panic::catch_unwind(|| drop(Gateway::launch(&spec))).is_ok();
        assert_eq!(started, accepted, "start with {config}");
    }
}

/// The collections of a standalone document, and whether the whole of it may be used.
const DOCUMENTS: &[(&str, bool)] = &[
    ("routes: []\n", true),
    ("routes:\n- id: 1\n  uri: /a\n  upstream: {type: roundrobin, nodes: {\"127.0.0.1:1\": 1}}\n", true),
    ("routes:\n- uri: /a\n  plugins: {echo: {body: a}}\n", true),
    ("routes:\n- id: 1\n  uri: 5\n", false),
    ("routes:\n- id: 1\n  uris: [/a]\n  methods: [FETCH]\n", false),
    ("routes:\n- id: 1\n  uri: /a\n  unknown_field: 1\n", false),
    ("routes:\n- id: 1\n  uri: /a\n  plugins: {no-such-plugin: {}}\n", false),
    ("routes:\n- id: 1\n  uri: /a\n  plugins: {limit-count: {count: 0, time_window: 1}}\n", false),
    ("routes:\n- id: 1\n  uri: /a\n  upstream_id: 9\n", false),
    (
        "routes:\n- id: 1\n  uri: /a\n  upstream_id: 9\nupstreams:\n- id: 9\n  type: roundrobin\n  nodes: {\"a:1\": 1}\n",
        true,
    ),
    ("routes:\n- id: 1\n  uri: /a\n  service_id: 9\n", false),
    ("routes:\n- id: 1\n  uri: /a\n  plugin_config_id: 9\n", false),
    ("routes:\n- id: 1\n  uri: /a\n  vars: [[arg_a, \"===\", b]]\n", false),
    ("routes:\n- id: 1\n  uri: /a\n  vars: [[arg_a, \"==\", b]]\n  plugins: {echo: {body: a}}\n", true),
    ("routes:\n- id: 1\n  uri: /a\n- id: 1\n  uri: /b\n", false),
    ("routes:\n- id: a b\n  uri: /a\n", false),
    ("routes:\n- 5\n", false),
    ("routes: 5\n", false),
    ("routs: []\n", false),
    ("- a\n", false),
    ("routes: [\n", false),
    ("routes:\n- id: 1\n  id: 2\n", false),
    ("routes:\n- id: ${{NO_SUCH}}\n  uri: /a\n", false),
    ("routes:\n- id: ${{NO_SUCH:=5}}\n  uri: /a\n  plugins: {echo: {body: a}}\n", true),
    ("upstreams:\n- id: 1\n  type: roundrobin\n  nodes: {\"a:99999\": 1}\n", false),
    ("upstreams:\n- id: 1\n  type: chash\n  nodes: {\"a:1\": 1}\n", false),
    ("upstreams:\n- id: 1\n  type: none-such\n  nodes: {\"a:1\": 1}\n", false),
    ("services:\n- id: 1\n  upstream_id: 9\n", false),
    ("consumers:\n- username: rose\n  plugins: {key-auth: {key: a}}\n", true),
    ("consumers:\n- username: rose\n  plugins: {key-auth: {}}\n", false),
    ("consumers:\n- desc: nobody\n", false),
    ("consumers:\n- username: rose\n- id: rose/credentials/c\n  plugins: {key-auth: {key: a}}\n", true),
    ("consumers:\n- id: rose/credentials/c\n  plugins: {key-auth: {key: a}}\n", false),
    ("consumers:\n- username: rose\n  group_id: 9\n", false),
    ("ssls:\n- id: 1\n  snis: [a.com]\n  cert: none\n  key: none\n", false),
    ("global_rules:\n- id: 1\n  plugins: {prometheus: {}}\n", true),
    ("global_rules:\n- id: 1\n  plugins: {no-such-plugin: {}}\n", false),
    ("plugin_configs:\n- id: 1\n  plugins: {echo: {body: a}}\n", true),
    ("plugin_configs:\n- id: 1\n", false),
    ("plugin_metadata:\n- id: http-logger\n  log_format: {a: $host}\n", true),
    ("plugin_metadata:\n- id: http-logger\n  log_format: 5\n", false),
    ("protos:\n- id: 1\n  content: \"syntax = \\\"proto3\\\"; message A { string a = 1; }\"\n", true),
    ("protos:\n- id: 1\n  content: \"message {\"\n", false),
    ("secrets:\n- id: vault/1\n  uri: http://127.0.0.1:1\n  prefix: kv\n  token: t\n", true),
    ("secrets:\n- id: vault/1\n  uri: 5\n", false),
    ("secrets:\n- id: 1\n", false),
    (
        "stream_routes:\n- id: 1\n  server_port: 9100\n  upstream: {type: roundrobin, nodes: {\"a:1\": 1}}\n",
        true,
    ),
    ("stream_routes:\n- id: 1\n  server_port: none\n", false),
    ("routes_conf_version: 5\nroutes: []\n", true),
];

/// The keys of the resources that the gateway can't use.
fn problems(control: u16) -> Vec<String> {
    let mut peer = Peer::connect(control);
    peer.send("GET /v1/problems HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let answer = peer.try_response("GET").unwrap().json();
    let keys = answer["list"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned());
    keys.collect()
}

fn file_provider(control: u16) -> Value {
    json!({
        "apisix": { "proxy_mode": "http&stream", "control": { "ip": "127.0.0.1", "port": control },
                    "enable_control": true },
        "deployment": { "role": "data_plane", "role_data_plane": { "config_provider": "yaml" } },
    })
}

#[test]
fn a_file_is_accepted_by_validate_test_start_and_reload_alike() {
    let [control] = free_ports();
    let running = Gateway::with_file("apisix.yaml", "routes: []\n#END\n", file_provider(control));
    let mut disagreements = Vec::new();
    for (number, (document, accepted)) in DOCUMENTS.iter().enumerate() {
        let text = format!("{document}#END\n");
        std::fs::write(running.dir().join("apisix.yaml"), &text).unwrap();
        let (validated, told) =
            tidegate(running.dir(), "config validate -c config.yaml --data-dir data apisix.yaml");
        let (tested, _) = tidegate(running.dir(), "test -c config.yaml --data-dir data");
        let verdicts = [validated, tested, reload(&running, control, number, document), start(&text)];
        if verdicts != [*accepted; 4] {
            disagreements.push(format!(
                "{document}expected {accepted}; validate, test, reload and start say {verdicts:?}\n{told}"
            ));
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

/// Whether a running gateway that follows the file uses everything in it. A resource that is always refused stands behind
/// the document: when the gateway reports it, the rest has been seen to.
fn reload(running: &Gateway, control: u16, number: usize, document: &str) -> bool {
    let before = running.stderr().len();
    let mark = format!("mark{number}");
    let text = format!("{document}consumer_groups:\n- id: {mark}\n#END\n");
    std::fs::write(running.dir().join("apisix.yaml"), text).unwrap();
    eventually("the file is read again", || {
        let said = running.stderr().split_off(before);
        if said.contains("what was in force stays") {
            return Some(false);
        }
        let mut found = problems(control);
        let marked = found.iter().position(|key| key.ends_with(&mark))?;
        found.remove(marked);
        let said = running.stderr().split_off(before);
        Some(found.is_empty() && !said.lines().any(|line| line.contains("[error]") && !line.contains(&mark)))
    })
}

/// Whether a first start with the file succeeds, and uses everything in it.
fn start(text: &str) -> bool {
    let [control] = free_ports();
    let spec = Spec {
        config: file_provider(control),
        file: Some(("apisix.yaml", text.to_owned())),
        ..Spec::default()
    };
    std::panic::catch_unwind(|| Gateway::launch(&spec))
        .is_ok_and(|gateway| problems(control).is_empty() && !gateway.stderr().contains("[error]"))
}
