//! What `limit-count` and `prometheus` together add to a request, and the access log's line, for an instruction counter
//! to look at:
//!
//! ```text
//! cargo build --release -p plugins --example plugin_cost
//! valgrind --tool=callgrind --toggle-collect='*plugin_cost::request*' target/release/examples/plugin_cost
//! ```
//!
//! The total divided by [`REQUESTS`] is the cost of one request: both hooks, the three headers and all metrics. With
//! `*plugin_cost::log_line*` it is that of a line in APISIX's default format.

use observe::access_log::AccessLogConfig;
use observe::{AccessLog, Metrics};
use plugin::testkit::{self, Bench};
use plugin::{Chain, Exchange, Registry, ResponseSource};
use serde_json::{Map, json};
use std::hint::black_box;
use std::time::Duration;
use stdx::Moment;

/// Requests counted; enough that the first one's work of making window and series is less than one instruction each.
const REQUESTS: u32 = 100_000;

fn main() {
    let registry = Registry::new(plugins::all(), Map::new()).expect("every schema is one");
    let config = json!({
        "limit-count": {
            "count": 2_000_000_000_000u64, "time_window": 60, "rejected_code": 503, "key": "remote_addr"
        },
        "prometheus": {}
    });
    let chain = testkit::chain(&registry, &config).expect("the studies' configuration");
    let bench = Bench::new("GET /hello\nHost: 127.0.0.1:9080\nUser-Agent: wrk");
    let mut exchange = bench.exchange();
    exchange.status = 200;
    exchange.source = ResponseSource::Upstream;
    exchange.upstream.addr = Some("127.0.0.1:1980".into());
    exchange.upstream.ip_len = "127.0.0.1".len();
    let path = "/dev/null".into();
    let log = AccessLog::open(&AccessLogConfig { path, ..AccessLogConfig::default() }).expect("opens");
    let start = Moment::now();
    for n in 0..REQUESTS {
        // 300 microseconds apart, so that windows' remaining time is as odd as it is in life.
        exchange.timing.started = start + Duration::from_micros(300) * n;
        exchange.timing.total = Duration::from_micros(250);
        exchange.timing.sent_bytes = 312;
        exchange.upstream.time = Some(Duration::from_micros(180));
        exchange.reply_headers.clear();
        request(black_box(&chain), black_box(&mut exchange));
        log_line(black_box(&log), black_box(&exchange), 1_793_620_800_000 + u64::from(n) * 3 / 10);
    }
    let text = observe::exposition(&registry.shared.get::<Metrics>());
    assert!(text.contains(&format!("response_source=\"upstream\"}} {REQUESTS}\n")), "all were counted");
}

#[inline(never)]
fn request(chain: &Chain, exchange: &mut Exchange<'_>) {
    let status = testkit::access(chain, exchange);
    assert_eq!(status, 0, "far below the limit");
    for step in &chain.log {
        step.hook.log(exchange);
    }
}

#[inline(never)]
fn log_line(log: &AccessLog, exchange: &Exchange<'_>, now_unix_ms: u64) {
    log.record(exchange.worker, exchange, now_unix_ms);
}
