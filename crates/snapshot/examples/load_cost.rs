//! Prints what 100,000 routes cost: to load them, to apply one change, to load the same again.
//!
//! `cargo run --release -p snapshot --example load_cost`

#![expect(clippy::print_stdout, reason = "the output is the purpose")]

use plugin::Registry;
use serde_json::json;
use snapshot::{BuildOptions, Builder, Published};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Change, Entry};

const ROUTES: u32 = 100_000;
const CHANGES: u32 = 1000;

fn main() {
    let registry = Arc::new(Registry::default());
    let mut builder = Builder::new(registry, BuildOptions::default());
    let service = entry("/services/1", "{}");
    let entries: Vec<Entry> = (0..ROUTES).map(|n| route(n, 1980)).chain([service]).collect();

    let began = Instant::now();
    let first = builder.load(1, &entries);
    println!("load {ROUTES} routes:        {:?}", began.elapsed());
    let published = Published::new(first);
    let mut reader = published.reader();

    let mut times: Vec<Duration> = (0..CHANGES)
        .map(|n| {
            let change = Change::Put(route(n * 97 % ROUTES, 1981));
            let began = Instant::now();
            published.publish(builder.apply(u64::from(n) + 2, [&change]));
            let time = began.elapsed();
            reader.current();
            time
        })
        .collect();
    times.sort_unstable();
    println!(
        "apply and publish one change: median {:?}, slowest {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );

    let service = Change::Put(entry("/services/1", r#"{"name": "changed"}"#));
    let began = Instant::now();
    published.publish(builder.apply(9998, [&service]));
    println!("change the service of all:   {:?}", began.elapsed());

    let began = Instant::now();
    published.publish(builder.load(9999, &entries));
    println!("load again, {CHANGES} differ:    {:?}", began.elapsed());
    let began = Instant::now();
    published.publish(builder.load(9999, &entries));
    println!("load again, none differ:     {:?}", began.elapsed());

    let began = Instant::now();
    published.publish(builder.load(10_000, &[]));
    reader.current();
    published.sweep();
    println!("unload all:                  {:?}", began.elapsed());
}

fn route(n: u32, port: u16) -> Entry {
    let value = json!({
        "id": n.to_string(), "create_time": 1_700_000_000, "update_time": 1_700_000_000, "priority": 0, "status": 1,
        "service_id": "1", "uri": format!("/api/v1/resource-{n}/*"), "host": format!("tenant-{}.example.com", n % 1000),
        "upstream": {"type": "roundrobin", "scheme": "http", "pass_host": "pass", "hash_on": "vars",
            "nodes": {format!("10.0.0.1:{port}"): 1, format!("10.0.0.2:{port}"): 1}}
    });
    entry(&format!("/routes/{n}"), &value.to_string())
}

fn entry(key: &str, value: &str) -> Entry {
    Entry {
        key: key.into(),
        value: value.as_bytes().into(),
        create_revision: 1,
        mod_revision: 1,
        expires_at_ms: None,
    }
}
