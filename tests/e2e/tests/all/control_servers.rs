//! The control plane's servers leave the data plane its descriptors, and newcomers a place, whatever their clients do.

use e2e::{ADMIN_KEY, Gateway, Peer, Spec, Upstream, eventually};
use serde_json::json;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Half a request's head on each of `most` connections to `port`, or as many as its queue takes.
fn half_open(port: u16, most: usize) -> Vec<Peer> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let connect = |_| {
        let stream = TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok()?;
        let mut peer = Peer::new(stream);
        let _ = peer.try_send(b"GET /apisix/prometheus/metrics HTTP/1.1\r\nHost: localhost\r\nX-");
        Some(peer)
    };
    (0..most).map_while(connect).collect()
}

#[test]
fn half_requests_to_the_control_plane_leave_both_planes_serving() {
    let upstream = Upstream::hello();
    let spec = Spec { open_files: Some(256), ..Spec::default() };
    let mut gateway = Gateway::launch(&spec);
    gateway.route_all(&upstream.address());
    let begin = Instant::now();
    let metrics = half_open(gateway.metrics_port, 2000);
    let others: Vec<_> =
        [gateway.admin_port, gateway.status_port].into_iter().flat_map(|port| half_open(port, 100)).collect();
    // More connections than the process may have descriptors, and hundreds of times those of a server.
    assert!(metrics.len() + others.len() > 256, "{} {}", metrics.len(), others.len());
    let folder = format!("/proc/{}/fd", gateway.process().id());
    let open = std::fs::read_dir(folder).unwrap().count();
    assert!(open < 128, "{open} descriptors");
    for _ in 0..3 {
        assert!(gateway.metrics().contains("apisix_http_requests_total"));
        assert_eq!(gateway.admin_with(ADMIN_KEY, "GET", "routes", &json!(null)).status(), 200);
    }
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let mut client = gateway.connect();
            assert_eq!(client.get("/").status(), 200);
            client
        })
        .collect();
    assert!(!gateway.stderr().contains("accept failed"), "{}", gateway.stderr());
    let evictions = gateway.stderr().matches("are closed for newer ones").count();
    assert!((1..=3).contains(&evictions), "a line for each server, not for each connection: {evictions}");
    // Of those that no newer one has evicted, each is answered in time.
    let mut last = metrics.into_iter().next_back().unwrap();
    assert_eq!(last.response().status(), 408);
    let waited = begin.elapsed().as_secs();
    assert!((9..15).contains(&waited), "{waited} s");
    drop((clients, others));
    eventually("the servers answer again", || {
        let metrics = gateway.metrics();
        let admin = gateway.admin_with(ADMIN_KEY, "GET", "routes", &json!(null));
        (metrics.contains("apisix_http_requests_total") && admin.status() == 200).then_some(())
    });
}

#[test]
fn workers_are_pinned_to_cores_where_the_configuration_says_so() {
    // `None` for a thread that has ended meanwhile.
    let allowed = |folder: &std::path::Path| -> Option<String> {
        let status = std::fs::read_to_string(folder.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    };
    let whole = allowed("/proc/self".as_ref()).unwrap();
    for affinity in [false, true] {
        let nginx = json!({ "worker_processes": 3, "enable_cpu_affinity": affinity });
        let mut gateway = Gateway::with(json!({ "nginx_config": nginx }));
        // A worker pins itself as it starts, which may be after the gateway is ready.
        eventually("threads are where they belong", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.process().id())).unwrap();
            let (mut pinned, mut others_are_free) = (0, true);
            for task in tasks.filter_map(|task| Some(task.ok()?.path())) {
                let Ok(name) = std::fs::read_to_string(task.join("comm")) else { continue };
                let Some(cores) = allowed(&task) else { continue };
                let is_pinned = cores.bytes().all(|byte| byte.is_ascii_digit());
                if affinity && name.starts_with("worker-") {
                    pinned += usize::from(is_pinned);
                } else {
                    others_are_free &= cores == whole;
                }
            }
            (pinned == if affinity { 3 } else { 0 } && others_are_free).then_some(())
        });
        assert_eq!(gateway.get("/").status(), 404);
    }
}

#[test]
fn a_reload_with_another_file_is_refused() {
    let gateway = Gateway::start();
    std::fs::write(gateway.dir().join("other.yaml"), "{}").unwrap();
    std::os::unix::fs::symlink("config.yaml", gateway.dir().join("link.yaml")).unwrap();
    let reload = |words: &[&str]| {
        let mut command = std::process::Command::new(e2e::binary());
        command.args(["reload", "--data-dir", "data"]).args(words).current_dir(gateway.dir());
        let output = command.env_remove("TIDEGATE_DATA_DIR").output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, said) = reload(&["-c", "other.yaml"]);
    assert!(!done && said.contains("config.yaml, not other.yaml"), "{said}");
    assert!(!gateway.stderr().contains("configuration read again"));
    for words in [&[][..], &["-c", "config.yaml"], &["-c", "./config.yaml"], &["-c", "link.yaml"]] {
        let (done, said) = reload(words);
        assert!(done, "{words:?} {said}");
    }
    // What waits for a restart is said, and what only the process can know is too.
    let config = std::fs::read_to_string(gateway.dir().join("config.yaml")).unwrap();
    let edited = |from: &str, to: &str| {
        assert!(config.contains(from), "{config}");
        std::fs::write(gateway.dir().join("config.yaml"), config.replace(from, to)).unwrap();
    };
    edited("\"worker_processes\":1", "\"worker_processes\":2");
    let (done, said) = reload(&[]);
    assert!(done && said.contains("need a restart: nginx_config.worker_processes"), "{said}");
    edited("\"ssl\":{", "\"ssl\":{\"ssl_trusted_certificate\":\"/no/such.pem\",");
    let (done, said) = reload(&[]);
    assert!(!done && said.contains("nothing changes") && said.contains("/no/such.pem"), "{said}");
    edited("a", "a");
    assert!(reload(&[]).0);
    // Without -c, the running process's own file is checked.
    std::fs::write(gateway.dir().join("config.yaml"), "apisix: 3\n").unwrap();
    let (done, said) = reload(&[]);
    assert!(!done && said.contains("config.yaml"), "{said}");
}
