//! Limits whose counters are in a Redis cluster, or behind sentinels: nodes that fail, slots that move, failovers.

use e2e::{Gateway, Redis, Upstream, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A gateway of two workers that sends everything to `upstream`, with these plugins.
fn gateway(upstream: &Upstream, plugins: &Value) -> Gateway {
    let gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 2 } }));
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
    gateway
}

/// A plugin's configuration with its counters in the cluster of `nodes`.
fn in_cluster(nodes: &[&Redis], config: &Value) -> Value {
    let addresses: Vec<String> = nodes.iter().map(|node| node.address()).collect();
    let mut whole = json!({
        "policy": "redis-cluster", "redis_cluster_nodes": addresses, "redis_cluster_name": "c", "redis_timeout": 500
    });
    for (key, value) in config.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    whole
}

#[test]
fn keys_are_spread_over_a_cluster_and_counted_exactly() {
    if !Redis::is_installed() {
        return;
    }
    let nodes = Redis::cluster::<3>(&["--requirepass", "pw", "--masterauth", "pw"], &["--pass", "pw"]);
    let upstream = Upstream::hello();
    // One node is enough to find the others.
    let base = json!({ "redis_password": "pw", "key": "arg_k" });
    let with = |more: Value| {
        let mut config = in_cluster(&[&nodes[0]], &base);
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        config
    };
    for config in [
        json!({ "limit-count": with(json!({ "count": 3, "time_window": 600 })) }),
        json!({ "limit-count": with(json!({ "count": 3, "time_window": 3600, "window_type": "sliding" })) }),
        json!({ "limit-req": with(json!({ "rate": 0.001, "burst": 2, "nodelay": true })) }),
    ] {
        let gateways = [(); 2].map(|()| gateway(&upstream, &config));
        for key in 0..20 {
            let path = format!("/?k={key}");
            let statuses: Vec<u16> = (0..4).map(|n| gateways[n % 2].get(&path).status()).collect();
            assert_eq!(statuses, [200, 200, 200, 503], "{config} {key} {}", gateways[0].stderr());
        }
    }
    for node in &nodes {
        assert!(node.keys().len() > 5, "{:?}", node.keys());
    }
    let conn = with(json!({ "conn": 1, "burst": 0, "default_conn_delay": 0.1 }));
    let one = gateway(&upstream, &json!({ "limit-conn": conn }));
    for key in 0..10 {
        assert_eq!(one.get(&format!("/?k={key}")).status(), 200);
    }
    let under_way = || nodes.iter().flat_map(Redis::keys).filter(|key| key.starts_with("limit_conn")).count();
    eventually("nothing is under way", || (under_way() == 0).then_some(()));
    let wrong = with(json!({ "count": 3, "time_window": 600, "redis_password": "wrong" }));
    let one = gateway(&upstream, &json!({ "limit-count": wrong }));
    assert_eq!(one.get("/").status(), 500);
    eventually("the log tells", || one.stderr().contains("failed to limit count: WRONGPASS").then_some(()));
}

#[test]
fn a_slot_moves_while_it_is_counted_in() {
    if !Redis::is_installed() {
        return;
    }
    let nodes = Redis::cluster::<3>(&[], &[]);
    let upstream = Upstream::hello();
    let config = in_cluster(&[&nodes[0], &nodes[1]], &json!({ "count": 1_000_000, "time_window": 6000 }));
    let gateway = gateway(&upstream, &json!({ "limit-count": config }));
    assert_eq!(gateway.get("/").status(), 200);
    let of_node: BTreeMap<usize, String> =
        nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.keys().pop()?))).collect();
    let (&source, key) = of_node.first_key_value().unwrap();
    let target = (source + 1) % 3;
    let slot = nodes[0].ask(&["CLUSTER", "KEYSLOT", key]);
    let id = |at: usize| nodes[at].ask(&["CLUSTER", "MYID"]);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let mut client = gateway.connect();
            let mut last = 999_999;
            while !ended.load(Ordering::Acquire) {
                let answer = client.get("/");
                assert_eq!(answer.status(), 200, "{}", gateway.stderr());
                let remaining = answer.field("x-ratelimit-remaining").unwrap().parse::<u64>().unwrap();
                assert_eq!(remaining, last - 1, "each request counts once");
                last = remaining;
                if answer.field("connection") == Some("close") {
                    client = gateway.connect();
                }
            }
            last
        });
        let pause = || std::thread::sleep(Duration::from_millis(150));
        pause();
        let port = nodes[target].port.to_string();
        for (at, command) in [
            (target, vec!["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(source)]),
            (source, vec!["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(target)]),
            // From here on the source sends requests to the target, one by one.
            (source, vec!["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]),
            (target, vec!["CLUSTER", "SETSLOT", &slot, "NODE", &id(target)]),
            (source, vec!["CLUSTER", "SETSLOT", &slot, "NODE", &id(target)]),
        ] {
            assert_eq!(nodes[at].ask(&command), "OK", "{command:?}");
            pause();
        }
        ended.store(true, Ordering::Release);
        let last = counting.join().unwrap();
        assert_eq!(nodes[target].ask(&["GET", key]), (1_000_000 - last).to_string());
    });
    // The source is left once it has said where the slot is.
    let errors = nodes[source].ask(&["INFO", "errorstats"]);
    let moved = errors.lines().find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
    let moved: u64 = moved.map_or(0, |count| count.trim().parse().unwrap());
    assert!(moved < 50, "{errors}");
}

#[test]
fn a_node_that_fails_takes_its_keys_with_it_alone() {
    if !Redis::is_installed() {
        return;
    }
    let mut nodes = Redis::cluster::<3>(&[], &[]);
    let upstream = Upstream::hello();
    let config = json!({ "count": 1000, "time_window": 600, "key": "arg_k", "redis_timeout": 300 });
    let config = in_cluster(&[&nodes[0], &nodes[1], &nodes[2]], &config);
    let gateway = gateway(&upstream, &json!({ "limit-count": config }));
    let ask = |key: usize| gateway.get(&format!("/?k={key}")).status();
    assert!((0..12).all(|key| ask(key) == 200));
    nodes[0].kill();
    let statuses: Vec<u16> = (0..12).map(ask).collect();
    let failed = statuses.iter().filter(|status| **status == 500).count();
    assert!((1..12).contains(&failed), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 500)), "{statuses:?}");
    nodes[0].restart();
    eventually("the node is back", || (0..12).all(|key| ask(key) == 200).then_some(()));
}

/// A plugin's configuration with its counters in the master that `sentinels` name.
fn behind(sentinels: &[u16], config: &Value) -> Value {
    let sentinels: Vec<Value> =
        sentinels.iter().map(|port| json!({ "host": "127.0.0.1", "port": port })).collect();
    let mut whole = json!({
        "count": 100_000, "time_window": 6000, "policy": "redis-sentinel", "redis_sentinels": sentinels,
        "redis_master_name": "mymaster", "redis_connect_timeout": 500, "redis_read_timeout": 500,
        "sentinel_password": "spw", "redis_password": "pw"
    });
    for (key, value) in config.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({ "limit-count": whole })
}

/// A master, its replica, and a sentinel that knows both.
fn group() -> (Redis, Redis, Redis) {
    let arguments = ["--requirepass", "pw", "--masterauth", "pw", "--repl-diskless-sync-delay", "0"];
    let master = Redis::guarded(&arguments, &["--pass", "pw"]);
    let replica = Redis::guarded(&arguments, &["--pass", "pw"]);
    assert_eq!(replica.ask(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]), "OK");
    let sentinel = Redis::sentinel(&master, "spw");
    assert_eq!(sentinel.ask(&["SENTINEL", "SET", "mymaster", "auth-pass", "pw"]), "OK");
    eventually("the sentinel knows the replica", || {
        let known = sentinel.ask(&["SENTINEL", "REPLICAS", "mymaster"]);
        (known.contains("\nslave\n") && known.contains("\nok\n")).then_some(())
    });
    (master, replica, sentinel)
}

#[test]
fn a_failover_is_followed() {
    if !Redis::is_installed() {
        return;
    }
    let ((mut master, replica, sentinel), upstream) = (group(), Upstream::hello());
    let [nobody] = e2e::free_ports::<1>();
    // The first sentinel is not there.
    let gateway = gateway(&upstream, &behind(&[nobody, sentinel.port], &json!({ "redis_database": 2 })));
    let mut client = gateway.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/").status(), 200, "{}", gateway.stderr());
    }
    let count = |server: &Redis| {
        let keys = server.ask(&["-n", "2", "KEYS", "*"]);
        server.ask(&["-n", "2", "GET", keys.trim()]).parse::<u64>().unwrap_or(0)
    };
    assert_eq!(count(&master), 3);
    eventually("the replica has the count", || (count(&replica) == 3).then_some(()));
    assert_eq!(sentinel.ask(&["SENTINEL", "FAILOVER", "mymaster"]), "OK");
    eventually("the replica is the master", || replica.ask(&["ROLE"]).starts_with("master").then_some(()));
    eventually("the new master is asked", || {
        (client.get("/").status() == 200 && count(&replica) > 3).then_some(())
    });
    // And back, without a word: the master crashes.
    eventually("the old master replicates", || master.ask(&["ROLE"]).starts_with("slave").then_some(()));
    eventually("the sentinel knows it", || {
        let known = sentinel.ask(&["SENTINEL", "REPLICAS", "mymaster"]);
        (known.contains("\nslave\n") && known.contains("\nok\n")).then_some(())
    });
    let mut crashing = replica;
    crashing.kill();
    eventually("the old master is asked again", || {
        (client.get("/").status() == 200 && master.ask(&["ROLE"]).starts_with("master")).then_some(())
    });
    master.kill();
    assert_eq!(client.get("/").status(), 500);
}

#[test]
fn a_master_that_was_replaced_in_silence_is_left() {
    if !Redis::is_installed() {
        return;
    }
    let ((master, _replica, mut sentinel), upstream) = (group(), Upstream::hello());
    let gateway = gateway(&upstream, &behind(&[sentinel.port], &json!({})));
    let mut client = gateway.connect();
    assert_eq!(client.get("/").status(), 200, "{}", gateway.stderr());
    // Another sentinel at the same place names another server; the old one answers on.
    let other = Redis::guarded(&["--requirepass", "pw"], &["--pass", "pw"]);
    assert_eq!(sentinel.ask(&["SENTINEL", "REMOVE", "mymaster"]), "OK");
    let port = other.port.to_string();
    assert_eq!(sentinel.ask(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &port, "1"]), "OK");
    eventually("the other server is asked", || {
        assert_eq!(client.get("/").status(), 200, "{}", gateway.stderr());
        (!other.keys().is_empty()).then_some(())
    });
    assert!(!master.keys().is_empty());
    // Without sentinels the server that is known is asked on.
    sentinel.kill();
    assert_eq!(client.get("/").status(), 200);
}

#[test]
fn sentinels_that_refuse_or_are_away_are_named_in_the_log() {
    if !Redis::is_installed() {
        return;
    }
    let ((_master, _replica, sentinel), upstream) = (group(), Upstream::hello());
    let [first, second] = e2e::free_ports::<2>();
    for (sentinels, config, log) in [
        (
            vec![first, second],
            json!({}),
            "redis connection failed, err: no hosts available, previous_errors: ",
        ),
        (vec![sentinel.port], json!({ "sentinel_password": "wrong" }), "WRONGPASS"),
        (vec![sentinel.port], json!({ "sentinel_password": "" }), "NOAUTH"),
        (vec![sentinel.port], json!({ "redis_password": "wrong" }), "failed to limit count: WRONGPASS"),
        (vec![sentinel.port], json!({ "redis_master_name": "other" }), "invalid master name"),
        (vec![sentinel.port], json!({ "redis_role": "slave" }), "READONLY"),
    ] {
        let gateway = gateway(&upstream, &behind(&sentinels, &config));
        assert_eq!(gateway.get("/").status(), 500, "{config}");
        eventually("the log tells", || gateway.stderr().contains(log).then_some(()));
        let mut tolerant = config.clone();
        tolerant["allow_degradation"] = json!(true);
        let plugins = json!({ "plugins": behind(&sentinels, &tolerant) });
        gateway.route_with(&upstream.address(), &json!({}), &plugins);
        assert_eq!(gateway.get("/").status(), 200, "{tolerant}");
    }
}
