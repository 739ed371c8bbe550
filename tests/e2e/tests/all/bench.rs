//! `tidegate bench` as a user runs it: against a gateway, in scenarios beside real peers, and on to a report.

use e2e::{Gateway, Upstream, binary, free_ports};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn bench(dir: &Path, arguments: &str) -> Output {
    let mut command = Command::new(binary());
    command.arg("bench").args(arguments.split_whitespace()).current_dir(dir).output().unwrap()
}

/// The same, which has to succeed; what it prints.
fn done(dir: &Path, arguments: &str) -> String {
    let output = bench(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn result_file(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_gateway_is_measured_over_every_protocol() {
    let upstream = Upstream::hello();
    // A connection that the server ends in its time is no failure.
    let http = json!({ "keepalive_requests": 20 });
    let ssl = json!({ "fallback_sni": "localhost" });
    let gateway = Gateway::with(json!({ "apisix": { "ssl": ssl }, "nginx_config": { "http": http } }));
    gateway.route_all(&upstream.address());
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pair = json!({ "snis": ["localhost"], "cert": cert.pem(), "key": signing_key.serialize_pem() });
    gateway.put("ssls/1", &pair);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.pem"), cert.pem()).unwrap();
    let (plain, tls) = (gateway.port, gateway.tls_port);
    for arguments in [
        format!("http://127.0.0.1:{plain}/ --pipeline 4"),
        format!("http://127.0.0.1:{plain}/ --http2 --pipeline 4"),
        format!("https://localhost:{tls}/ --cacert ca.pem"),
        format!("https://localhost:{tls}/ --cacert ca.pem --http2"),
        format!("https://127.0.0.1:{tls}/ --insecure --rate 2000"),
    ] {
        let printed = done(dir.path(), &format!("{arguments} -c 4 -n 200 --json"));
        let printed: Value = serde_json::from_str(&printed).unwrap();
        let run = &printed["series"][0]["runs"][0];
        assert_eq!((&run["requests"], &run["statuses"]["200"]), (&json!(200), &json!(200)), "{arguments}");
        assert!(printed["requests_per_second"].as_f64().unwrap() > 0.0, "{arguments}");
    }
    let refused = bench(dir.path(), &format!("https://localhost:{tls}/ -n 1"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("certificate"), "{said}");
    let missed = bench(dir.path(), &format!("http://127.0.0.1:{plain}/ -n 100 --threshold p99<=1ns"));
    assert_eq!(missed.status.code(), Some(3));
}

#[test]
fn scenarios_run_beside_their_peers_and_become_a_report() {
    let upstream = Upstream::hello();
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = format!("http://{}/", upstream.address());
    for (scenario, peer, name) in [
        ("single-upstream", "nginx", "nginx"),
        ("single-upstream", elsewhere.as_str(), "peer"),
        ("two-plugins", "haproxy", "haproxy"),
        ("static-tls", "nginx", "nginx"),
        ("static-tls", "nginx-best", "nginx-best"),
    ] {
        let file = format!("{scenario}-{name}.json");
        let times = "-c 4 -d 200ms --warmup 50ms --rounds 2 --no-pin --quiet";
        done(dir.path(), &format!("scenario {scenario} --peer {peer} {times} --out {file}"));
        let result = result_file(&dir.path().join(file));
        let series = result["series"].as_array().unwrap();
        let names: Vec<&Value> = series.iter().map(|series| &series["name"]).collect();
        assert_eq!(names, ["tidegate", name], "{scenario}");
        for series in series {
            let runs = series["runs"].as_array().unwrap();
            assert_eq!(runs.len(), 4, "{scenario} {name}");
            for run in runs {
                assert!(run["requests"].as_u64() > Some(0), "{scenario} {name}: {run}");
                assert_eq!(run["statuses"].as_object().unwrap().keys().collect::<Vec<_>>(), ["200"]);
            }
        }
    }
    done(
        dir.path(),
        "report single-upstream-nginx.json two-plugins-haproxy.json static-tls-nginx.json \
         --baseline nginx --price-per-hour 1.2 --out report",
    );
    let page = std::fs::read_to_string(dir.path().join("report/report.html")).unwrap();
    let text = std::fs::read_to_string(dir.path().join("report/report.md")).unwrap();
    for word in ["Single upstream", "Static file over TLS", "haproxy", "Price-performance"] {
        assert!(page.contains(word) && text.contains(word), "{word}");
    }
    assert!(page.contains("<svg") && !page.contains("src=\"http"), "the page needs nothing else");
    let same = "compare single-upstream-nginx.json single-upstream-nginx.json --json";
    let same: Value = serde_json::from_str(&done(dir.path(), same)).unwrap();
    let comparisons = same["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 2);
    assert!(comparisons.iter().all(|pair| pair["significant"] == false), "{same}");
}

#[test]
fn nobody_there_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let [port] = free_ports::<1>();
    let output = bench(dir.path(), &format!("http://127.0.0.1:{port}/ -d 1s"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("refused"), "{said}");
    let output =
        bench(dir.path(), &format!("scenario single-upstream --peer http://127.0.0.1:{port}/ -d 100ms -q"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(&port.to_string()), "{said}");
}

#[test]
fn shells_are_told_of_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(binary()).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["quickstart", "bench", "scenario", "import", "threshold"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}
