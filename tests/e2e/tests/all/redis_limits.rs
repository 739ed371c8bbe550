//! Limits whose counters are in Redis, which gateways share: counts, windows, headers, rates, requests under way.

use e2e::{Gateway, Peer, Redis, Upstream, eventually};
use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A gateway of two workers that sends everything to `upstream`, with these plugins.
fn gateway(upstream: &Upstream, plugins: &Value) -> Gateway {
    let gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 2 } }));
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
    gateway
}

/// A plugin's configuration with its counters in `redis`.
fn in_redis(redis: &Redis, config: &Value) -> Value {
    let mut whole = json!({ "policy": "redis", "redis_host": "127.0.0.1", "redis_port": redis.port });
    for (key, value) in config.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    whole
}

/// The statuses of requests that each gateway gets `count` of from several clients at a time.
fn at_once(gateways: &[&Gateway], clients: usize, count: usize) -> Vec<u16> {
    let ports: Vec<u16> = gateways.iter().map(|gateway| gateway.port).collect();
    let threads: Vec<_> = ports
        .into_iter()
        .flat_map(|port| std::iter::repeat_n(port, clients))
        .map(|port| {
            std::thread::spawn(move || {
                let mut client = Peer::connect(port);
                (0..count / clients).map(|_| client.get("/").status()).collect::<Vec<_>>()
            })
        })
        .collect();
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

fn passed(statuses: &[u16]) -> usize {
    statuses.iter().filter(|status| **status == 200).count()
}

#[test]
fn a_count_is_shared_by_gateways_and_workers() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = in_redis(&redis, &json!({ "count": 100, "time_window": 600, "key": "remote_addr" }));
    let gateways = [(); 2].map(|()| gateway(&upstream, &json!({ "limit-count": config })));
    let statuses = at_once(&[&gateways[0], &gateways[1]], 8, 200);
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert_eq!((passed(&statuses), refused), (100, 300));
    let keys = redis.keys();
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    assert!(key.starts_with("plugin-limit-count:v1:/routes/all:") && key.ends_with(":127.0.0.1"), "{key}");
    assert_eq!(redis.ask(&["GET", key]), "400");
    let left: u64 = redis.ask(&["PTTL", key]).parse().unwrap();
    assert!((590_000..=600_000).contains(&left), "{left}");
    let answer = gateways[0].get("/");
    assert_eq!((answer.status(), answer.field("x-ratelimit-remaining")), (503, Some("0")));
    let reset: f64 = answer.field("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!((590.0..=600.0).contains(&reset), "{reset}");
}

#[test]
fn one_connection_a_worker_carries_all_requests() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = in_redis(&redis, &json!({ "count": 100_000, "time_window": 600 }));
    let gateway = gateway(&upstream, &json!({ "limit-count": config }));
    assert_eq!(passed(&at_once(&[&gateway], 16, 480)), 480);
    let clients = redis.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
    // redis-cli's own is one of them.
    let of_gateway = clients.lines().filter(|line| !line.contains("cmd=client")).count();
    assert!((1..=2).contains(&of_gateway), "{clients}");
    // A server that has forgotten the script is sent it.
    redis.ask(&["SCRIPT", "FLUSH"]);
    assert_eq!(passed(&at_once(&[&gateway], 4, 8)), 8);
}

#[test]
fn windows_begin_anew_and_say_what_is_left() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = in_redis(&redis, &json!({ "count": 2, "time_window": 2, "rejected_code": 429 }));
    let gateway = gateway(&upstream, &json!({ "limit-count": config }));
    let mut client = gateway.connect();
    let mut seen = Vec::new();
    for (status, remaining) in [(200, "1"), (200, "0"), (429, "0")] {
        let answer = client.get("/");
        assert_eq!((answer.status(), answer.field("x-ratelimit-remaining")), (status, Some(remaining)));
        assert_eq!(answer.field("x-ratelimit-limit"), Some("2"));
        seen.push(answer.field("x-ratelimit-reset").unwrap().parse::<f64>().unwrap());
    }
    assert!(seen.is_sorted_by(|a, b| a >= b) && seen[0] <= 2.0 && seen[2] > 0.0, "{seen:?}");
    eventually("the window ends", || (client.get("/").status() == 200).then_some(()));
    assert_eq!(client.get("/").field("x-ratelimit-remaining"), Some("0"));
}

#[test]
fn a_sliding_window_is_shared() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = json!({ "count": 50, "time_window": 3600, "window_type": "sliding" });
    let config = in_redis(&redis, &config);
    let gateways = [(); 2].map(|()| gateway(&upstream, &json!({ "limit-count": config })));
    let statuses = at_once(&[&gateways[0], &gateways[1]], 4, 60);
    assert_eq!(passed(&statuses), 50);
    let keys = redis.keys();
    assert!(keys.iter().all(|key| key.starts_with("plugin-limit-count:/routes/all:")), "{keys:?}");
    let counted: u64 = keys.iter().map(|key| redis.ask(&["GET", key]).parse::<u64>().unwrap()).sum();
    assert_eq!(counted, 50, "a request that is refused is not counted");
    // The next window sees what this one counted, and lets nothing pass at its beginning.
    let [key] = keys.as_slice() else { return };
    let window: u64 = key.rsplit('.').nth(1).unwrap().parse().unwrap();
    let before = key.replace(&format!(".{window}."), &format!(".{}.", window - 1));
    redis.ask(&["DEL", key]);
    redis.ask(&["SET", &before, "50"]);
    let answer = gateways[0].get("/");
    let reset: f64 = answer.field("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!(answer.status() == 200 || (0.0..=3600.0).contains(&reset), "{} {reset}", answer.start);
}

#[test]
fn rules_count_apart_and_stop_at_the_first_that_refuses() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = json!({ "rejected_code": 429, "rules": [
        { "count": 1, "time_window": 600, "key": "${arg_user}", "header_prefix": "User" },
        { "count": "${arg_n ?? 5}", "time_window": 600, "key": "${arg_team}" },
    ] });
    let gateway = gateway(&upstream, &json!({ "limit-count": in_redis(&redis, &config) }));
    let ask = |path: &str| {
        let answer = gateway.get(path);
        let field = |name| answer.field(name).map(str::to_owned);
        (answer.status(), field("x-user-ratelimit-remaining"), field("x-2-ratelimit-remaining"))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(ask("/?user=a&team=a"), (200, some("0"), some("4")), "equal keys are two limits");
    assert_eq!(ask("/?user=a&team=a"), (429, some("0"), None));
    assert_eq!(ask("/?user=b&team=a"), (200, some("0"), some("3")));
    assert_eq!(ask("/?team=a"), (200, None, some("2")));
    assert_eq!(ask("/?team=b&n=x").0, 500);
    assert_eq!(ask("/").0, 500);
}

#[test]
fn a_group_is_one_count_for_its_routes() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = in_redis(&redis, &json!({ "count": 2, "time_window": 600, "group": "g" }));
    let gateway = gateway(&upstream, &json!({ "limit-count": config }));
    let other = json!({ "uri": "/other", "plugins": { "limit-count": config },
        "upstream": { "nodes": { upstream.address(): 1 }, "type": "roundrobin" } });
    gateway.put("routes/other", &other);
    assert_eq!(["/", "/other", "/", "/other"].map(|path| gateway.get(path).status()), [200, 200, 503, 503]);
    assert_eq!(redis.keys(), ["plugin-limit-count:v1:g:127.0.0.1"]);
    let mut mismatched = other;
    mismatched["plugins"]["limit-count"]["redis_database"] = json!(1);
    let answer = gateway.admin("PUT", "routes/third", &mismatched);
    assert!(answer.status() == 400 && answer.text().contains("group conf mismatched"), "{}", answer.text());
}

#[test]
fn delayed_counts_meet_in_redis() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = json!({ "count": 40, "time_window": 600, "sync_interval": 0.1, "rejected_code": 429 });
    let config = in_redis(&redis, &config);
    let gateways = [(); 2].map(|()| gateway(&upstream, &json!({ "limit-count": config })));
    let commands = || -> u64 {
        let info = redis.ask(&["INFO", "commandstats"]);
        let calls = info.lines().filter(|line| line.starts_with("cmdstat_eval"));
        calls.map(|line| line.split(['=', ',']).nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    let statuses = at_once(&[&gateways[0]], 4, 20);
    assert_eq!(passed(&statuses), 20);
    assert!(commands() < 20, "Redis is not asked for each request");
    let keys = eventually("Redis is told", || {
        let keys = redis.keys();
        (keys.len() == 1 && redis.ask(&["GET", &keys[0]]) == "20").then_some(keys)
    });
    assert_eq!(passed(&at_once(&[&gateways[1]], 4, 40)), 20, "the other gateway knows of them");
    eventually("Redis is told", || (redis.ask(&["GET", &keys[0]]) == "40").then_some(()));
    eventually("the first gateway hears of it", || (gateways[0].get("/").status() == 429).then_some(()));
}

#[test]
fn delayed_counts_go_on_without_redis() {
    if !Redis::is_installed() {
        return;
    }
    let (mut redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config = json!({ "count": 10, "time_window": 600, "sync_interval": 0.1, "redis_timeout": 300 });
    let gateway = gateway(&upstream, &json!({ "limit-count": in_redis(&redis, &config) }));
    redis.kill();
    assert_eq!(passed(&at_once(&[&gateway], 4, 40)), 10);
    redis.restart();
    eventually("Redis is told", || {
        gateway.get("/");
        let keys = redis.keys();
        (keys.len() == 1 && redis.ask(&["GET", &keys[0]]) == "10").then_some(())
    });
}

#[test]
fn a_rate_is_shared() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let config =
        in_redis(&redis, &json!({ "rate": 0.01, "burst": 0, "key": "remote_addr", "rejected_code": 429 }));
    let gateways = [(); 2].map(|()| gateway(&upstream, &json!({ "limit-req": config })));
    assert_eq!(passed(&at_once(&[&gateways[0], &gateways[1]], 4, 20)), 1);
    let keys = redis.keys();
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    assert!(key.starts_with("limit_req:/routes/all:"), "{key}");
    assert_eq!(redis.ask(&["HGET", key, "excess"]), "0");
    let left: u64 = redis.ask(&["PTTL", key]).parse().unwrap();
    assert!((95_000..=101_000).contains(&left), "a hundred seconds for one request: {left}");
    // A gateway whose clock is ahead: time does not go back.
    let ahead = redis.ask(&["HGET", key, "last"]).parse::<u64>().unwrap() + 50_000;
    redis.ask(&["HSET", key, "last", &ahead.to_string()]);
    assert_eq!(passed(&at_once(&[&gateways[0]], 1, 5)), 0);
}

#[test]
fn requests_beyond_a_rate_wait_for_their_time() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let limit = |rate: f64, nodelay: bool| {
        let config = json!({ "rate": rate, "burst": 2, "key": "remote_addr", "nodelay": nodelay });
        gateway(&upstream, &json!({ "limit-req": in_redis(&redis, &config) }))
    };
    let waiting = limit(4.0, false);
    let started = Instant::now();
    let statuses = at_once(&[&waiting], 3, 3);
    assert_eq!(passed(&statuses), 3, "{statuses:?}");
    assert!(started.elapsed() >= Duration::from_millis(450), "the third one waits for half a second");
    let hasty = limit(0.01, true);
    assert_eq!(passed(&at_once(&[&hasty], 6, 6)), 3, "nobody waits");
}

/// What holds the requests for `/held`.
#[derive(Default)]
struct Gate {
    /// How many came, and whether they may pass.
    state: Mutex<(usize, bool)>,
    opened: Condvar,
}

impl Gate {
    /// An upstream whose answers wait at the gate.
    fn upstream(self: &Arc<Self>) -> Upstream {
        let gate = Arc::clone(self);
        Upstream::answering(move |request| {
            if request.start.contains("/held") {
                let mut state = gate.state.lock().unwrap();
                state.0 += 1;
                drop(gate.opened.wait_while(state, |state| !state.1).unwrap());
            }
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()
        })
    }

    /// Waits until `count` requests have come.
    fn until(&self, count: usize) {
        eventually("the request is under way", || (self.state.lock().unwrap().0 == count).then_some(()));
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.opened.notify_all();
    }
}

#[test]
fn requests_under_way_count_in_all_gateways_until_they_end() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, gate) = (Redis::start(&[]), Arc::<Gate>::default());
    let upstream = gate.upstream();
    let config =
        json!({ "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr", "key_ttl": 60 });
    let config = in_redis(&redis, &config);
    let gateways = [(); 2].map(|()| gateway(&upstream, &json!({ "limit-conn": config })));
    let mut first = gateways[0].connect();
    first.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.until(1);
    assert_eq!([gateways[1].get("/").status(), gateways[0].get("/").status()], [503, 503]);
    let keys = redis.keys();
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    assert!(key.starts_with("limit_conn:/routes/all:"), "{key}");
    assert_eq!(redis.ask(&["ZCARD", key]), "1");
    // The client leaves: its request counts no more.
    drop(first);
    eventually("the request ends", || (gateways[1].get("/").status() == 200).then_some(()));
    let mut next = gateways[1].connect();
    next.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.until(2);
    assert_eq!(gateways[0].get("/").status(), 503);
    gate.open();
    assert_eq!(next.response().status(), 200);
    eventually("nothing is under way", || redis.keys().is_empty().then_some(()));
    for gateway in &gateways {
        assert!(!gateway.stderr().contains("panicked"), "{}", gateway.stderr());
    }
}

#[test]
fn requests_beyond_the_number_wait_and_crashed_gateways_are_forgotten() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, gate) = (Redis::start(&[]), Arc::<Gate>::default());
    let upstream = gate.upstream();
    let config =
        json!({ "conn": 1, "burst": 1, "default_conn_delay": 0.3, "key": "remote_addr", "key_ttl": 2 });
    let config = in_redis(&redis, &config);
    let mut crashing = gateway(&upstream, &json!({ "limit-conn": config }));
    let other = gateway(&upstream, &json!({ "limit-conn": config }));
    let mut held = crashing.connect();
    held.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.until(1);
    let started = Instant::now();
    assert_eq!(other.get("/").status(), 200);
    assert!(started.elapsed() >= Duration::from_millis(290), "{:?}", started.elapsed());
    crashing.process().kill();
    eventually("what crashed counts no more", || {
        let started = Instant::now();
        (other.get("/").status() == 200 && started.elapsed() < Duration::from_millis(250)).then_some(())
    });
    gate.open();
}
