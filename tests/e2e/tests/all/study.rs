//! The commands of the studies that the product is measured by, as they are written there.

use e2e::{Home, Nginx, Process, binary, eventually, free_ports, own_network};
use std::process::{Command, Stdio};

/// Where the studies' commands go: gateway, upstream, metrics.
const PORTS: [u16; 3] = [9080, 1980, 9091];

/// Each command, and what its output must have.
const COMMANDS: [(&str, &[&str]); 8] = [
    (
        r#"curl "http://127.0.0.1:9080/apisix/admin/routes/1" -H "X-API-KEY: edd1c9f034335f136f87ad84b625c8f1" -X PUT -d '
{ "uri": "/anything/*", "upstream": { "type": "roundrobin", "nodes": { "127.0.0.1:1980": 1 } } }'"#,
        &[
            r#""key":"/apisix/routes/1""#,
            r#""uri":"/anything/*""#,
            r#""127.0.0.1:1980":1"#,
            r#""create_time""#,
        ],
    ),
    ("curl -i http://127.0.0.1:9080/anything/das", &["HTTP/1.1 200 OK\r\n", "\r\n\r\n/anything/das"]),
    (
        r#"curl http://127.0.0.1:9080/apisix/admin/routes/1 -H 'X-API-KEY: edd1c9f034335f136f87ad84b625c8f1' -X PUT -d '
{ "uri": "/hello", "plugins": {}, "upstream": { "type": "roundrobin", "nodes": { "127.0.0.1:1980":1 } } }'"#,
        &[r#""key":"/apisix/routes/1""#, r#""uri":"/hello""#],
    ),
    ("curl -i http://127.0.0.1:9080/hello", &["HTTP/1.1 200 OK\r\n", "\r\n\r\nhello\n"]),
    (
        "curl -i http://127.0.0.1:9080/anything/das",
        &["HTTP/1.1 404 Not Found\r\n", r#"{"error_msg":"404 Route Not Found"}"#],
    ),
    (
        r#"curl http://127.0.0.1:9080/apisix/admin/routes/1 -H 'X-API-KEY: edd1c9f034335f136f87ad84b625c8f1' -X PUT -d '
{ "uri": "/hello", "plugins": { "limit-count": { "count": 2000000000000, "time_window": 60, "rejected_code": 503, "key": "remote_addr" }, "prometheus": {} },
  "upstream": { "type": "roundrobin", "nodes": { "127.0.0.1:1980":1 } } }'"#,
        &[r#""limit-count""#, r#""count":2000000000000"#, r#""prometheus""#],
    ),
    (
        "curl -i http://127.0.0.1:9080/hello",
        &[
            "HTTP/1.1 200 OK\r\n",
            "\r\nX-RateLimit-Limit: 2000000000000\r\n",
            "\r\nX-RateLimit-Remaining: 1999999999999\r\n",
            "\r\nX-RateLimit-Reset: ",
            "\r\n\r\nhello\n",
        ],
    ),
    (
        "curl http://127.0.0.1:9091/apisix/prometheus/metrics",
        &[
            "# TYPE apisix_http_status counter\n",
            "apisix_http_status{code=\"200\",route=\"1\",matched_uri=\"/hello\",matched_host=\"\",service=\"\",consumer=\"\",node=\"127.0.0.1\"",
            "# TYPE apisix_http_latency histogram\n",
            "apisix_http_latency_count{type=\"request\",route=\"1\"",
            "apisix_bandwidth{type=\"egress\",route=\"1\"",
            "apisix_nginx_http_current_connections{state=\"active\"}",
            "apisix_http_requests_total ",
            "# TYPE apisix_node_info gauge\n",
            concat!("\",version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n"),
        ],
    ),
];

#[test]
fn the_commands_work_as_written() {
    own_network("study::the_commands_work_as_written", &[9080, 9180, 7085, 9091, 9090, 1980], |home| {
        let ports = match home {
            Home::Ours => PORTS,
            Home::Shared => free_ports(),
        };
        let _nginx = Nginx::on(ports[1]);
        let dir = tempfile::tempdir().unwrap();
        let _gateway = quickstart(dir.path(), ports, home);
        for (command, expected) in COMMANDS {
            let mut command = command.to_owned();
            for (fixed, port) in PORTS.iter().zip(ports) {
                command = command.replace(&format!("127.0.0.1:{fixed}"), &format!("127.0.0.1:{port}"));
            }
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
            for part in expected {
                let part = part.replace(":1980", &format!(":{}", ports[1]));
                assert!(text.contains(&part), "{command}\nlacks {part:?}:\n{text}");
            }
        }
    });
}

/// Without a configuration file where the ports are ours: that is how a newcomer starts it.
fn quickstart(dir: &std::path::Path, [port, _, metrics]: [u16; 3], home: Home) -> Process {
    let mut command = Command::new(binary());
    command.arg("quickstart").current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null());
    if home == Home::Shared {
        let [admin, status] = free_ports();
        let config = format!(
            "apisix: {{node_listen: {port}, status: {{port: {status}}}}}\n\
             deployment: {{admin: {{admin_listen: {{port: {admin}}}}}}}\n\
             plugin_attr: {{prometheus: {{export_addr: {{port: {metrics}}}}}}}\n"
        );
        std::fs::write(dir.join("config.yaml"), config).unwrap();
        command.args(["-c", "config.yaml"]);
    }
    let mut process = Process::start(&mut command);
    eventually("the quick start answers", || {
        assert!(process.ended().is_none(), "the quick start ended");
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    process
}
