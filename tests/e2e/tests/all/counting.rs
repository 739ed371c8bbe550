//! Rate limits and counters across workers.

use e2e::{Gateway, Upstream, eventually};
use serde_json::json;

/// Requests that may pass.
const COUNT: usize = 500;
/// Clients, each a connection of its own, so that the kernel spreads them over the workers.
const CLIENTS: usize = 40;
/// Requests that are sent in all.
const REQUESTS: usize = 2000;

#[test]
fn a_limit_is_exact_across_workers() {
    let upstream = Upstream::hello();
    let gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 4 } }));
    let limit = json!({ "count": COUNT, "time_window": 600, "rejected_code": 503, "key": "remote_addr" });
    gateway.route_with(
        &upstream.address(),
        &json!({}),
        &json!({ "plugins": { "limit-count": limit, "prometheus": {} } }),
    );
    let clients: Vec<_> = (0..CLIENTS).map(|_| gateway.connect()).collect();
    let threads: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                (0..REQUESTS / CLIENTS).map(|_| client.get("/").status()).collect::<Vec<_>>()
            })
        })
        .collect();
    let statuses: Vec<u16> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let passed = statuses.iter().filter(|status| **status == 200).count();
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert_eq!((passed, refused), (COUNT, REQUESTS - COUNT));
    let sum_of = |metrics: &str, code: &str| -> usize {
        metrics
            .lines()
            .filter(|line| line.starts_with(&format!("apisix_http_status{{code=\"{code}\",route=\"all\"")))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
            .sum()
    };
    // A request is counted when its answer is out.
    eventually("the counters of the workers add up", || {
        let metrics = gateway.metrics();
        ((sum_of(&metrics, "200"), sum_of(&metrics, "503")) == (passed, refused)).then_some(())
    });
}

#[test]
fn what_is_left_is_said() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    let limit = json!({ "count": 2, "time_window": 600, "rejected_code": 429, "rejected_msg": "slow down", "key": "remote_addr" });
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "limit-count": limit } }));
    let mut client = gateway.connect();
    for (status, left) in [(200, "1"), (200, "0"), (429, "0"), (429, "0")] {
        let answer = client.get("/");
        assert_eq!((answer.status(), answer.field("x-ratelimit-remaining")), (status, Some(left)));
        assert_eq!(answer.field("x-ratelimit-limit"), Some("2"));
        let reset: f64 = answer.field("x-ratelimit-reset").unwrap().parse().unwrap();
        assert!((1.0..=600.0).contains(&reset), "{reset}");
        if status == 429 {
            assert_eq!(answer.json(), json!({ "error_msg": "slow down" }));
        }
    }
}
