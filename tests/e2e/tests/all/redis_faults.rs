//! Limits whose Redis is guarded, encrypted, away, slow, or something else.

use e2e::{Gateway, Redis, Upstream, eventually, free_ports};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Sends everything to `upstream`, counted in the Redis at `port`.
fn limit(gateway: &Gateway, upstream: &Upstream, port: u16, config: &Value) {
    let mut limit = json!({
        "count": 1000, "time_window": 600, "policy": "redis", "redis_host": "127.0.0.1", "redis_port": port
    });
    for (key, value) in config.as_object().into_iter().flatten() {
        limit[key] = value.clone();
    }
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "limit-count": limit } }));
}

/// Waits for words in the gateway's log.
fn logged(gateway: &Gateway, words: &str) {
    eventually("the log tells", || {
        let text = gateway.stderr();
        assert!(!text.contains("panicked"), "{text}");
        text.contains(words).then_some(())
    });
}

#[test]
fn accounts_and_databases_are_those_of_the_configuration() {
    if !Redis::is_installed() {
        return;
    }
    let acl = ["--requirepass", "secret", "--user", "alice", "on", ">wonder", "~*", "+@all"];
    let redis = Redis::guarded(&acl, &["--pass", "secret"]);
    let (gateway, upstream) = (Gateway::start(), Upstream::hello());
    let wrong = "failed to limit count: WRONGPASS invalid username-password pair or user is disabled.";
    for (config, status, log) in [
        (json!({ "redis_password": "secret" }), 200, ""),
        (json!({ "redis_username": "alice", "redis_password": "wonder" }), 200, ""),
        (json!({ "redis_password": "secret", "redis_database": 3 }), 200, ""),
        (json!({ "redis_password": "wrong" }), 500, wrong),
        (json!({ "redis_username": "alice", "redis_password": "secret" }), 500, wrong),
        (json!({ "redis_username": "bob", "redis_password": "wonder" }), 500, wrong),
        (json!({}), 500, "failed to limit count: NOAUTH Authentication required."),
        (
            json!({ "redis_password": "secret", "redis_database": 99 }),
            500,
            "failed to limit count: failed to change redis db, err: ERR DB index is out of range",
        ),
    ] {
        limit(&gateway, &upstream, redis.port, &config);
        let answer = gateway.get("/");
        assert_eq!(answer.status(), status, "{config} {}", gateway.stderr());
        logged(&gateway, log);
        if status == 500 {
            assert_eq!(answer.text(), "{\"error_msg\":\"failed to limit count\"}\n");
            let mut tolerant = config.clone();
            tolerant["allow_degradation"] = json!(true);
            limit(&gateway, &upstream, redis.port, &tolerant);
            assert_eq!(gateway.get("/").status(), 200, "{tolerant}");
        }
    }
    assert_eq!(redis.ask(&["-n", "3", "DBSIZE"]), "1");
    assert!(!gateway.stderr().contains("wonder"), "a password is not logged: {}", gateway.stderr());
}

/// A certificate for 127.0.0.1, its key, and the authority, as files.
fn certificate(dir: &Path) -> [String; 3] {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "root");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let leaf = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let files = [
        ("leaf.crt", leaf.signed_by(&key, &issuer).unwrap().pem()),
        ("leaf.key", key.serialize_pem()),
        ("root.crt", issuer.pem()),
    ];
    files.map(|(name, text)| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    })
}

#[test]
fn servers_are_asked_in_tls_and_verified() {
    if !Redis::is_installed() {
        return;
    }
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ([leaf, key, root], [_, _, unrelated]) = (certificate(dir.path()), certificate(other.path()));
    let (redis, upstream) = (Redis::encrypted(&leaf, &key, &root), Upstream::hello());
    for (trusted, known) in [(&root, true), (&unrelated, false)] {
        let gateway = Gateway::with(json!({ "apisix": { "ssl": { "ssl_trusted_certificate": trusted } } }));
        for (config, works) in [
            (json!({ "redis_ssl": true }), true),
            (json!({ "redis_ssl": true, "redis_ssl_verify": true }), known),
            (json!({ "redis_ssl": false, "redis_timeout": 500 }), false),
        ] {
            limit(&gateway, &upstream, redis.port, &config);
            for _ in 0..2 {
                let status = gateway.get("/").status();
                assert_eq!(status, if works { 200 } else { 500 }, "{config} {}", gateway.stderr());
            }
        }
    }
}

#[test]
fn a_server_that_is_none_ends_in_an_error_or_lets_pass() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    let http = Upstream::hello();
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    let leaving = Upstream::serve(|_, _| {});
    // A byte at a time, and never a whole reply.
    let slow = Upstream::serve(|mut peer, _| {
        let _ = peer.fill();
        while peer.try_send(b"+").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let endless = Upstream::serve(|mut peer, _| {
        let _ = peer.fill();
        let zeroes = "0".repeat(1 << 16);
        let _ = peer.try_send(b"$999999999999\r\n");
        while peer.try_send(zeroes.as_bytes()).is_ok() {}
    });
    let boasting = Upstream::serve(|mut peer, _| {
        let _ = peer.fill();
        let _ = peer.try_send(b"*9223372036854775807\r\n:1\r\n");
        while matches!(peer.fill(), Ok(true)) {}
    });
    let lying = Upstream::serve(|mut peer, _| {
        while matches!(peer.fill(), Ok(true)) {
            let _ = peer.try_send(b"*2\r\n$3\r\nyes\r\n$-1\r\n");
        }
    });
    let port = |upstream: &Upstream| upstream.address().rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let [closed] = free_ports::<1>();
    for (what, port) in [
        ("http", port(&http)),
        ("silent", port(&silent)),
        ("leaving", port(&leaving)),
        ("slow", port(&slow)),
        ("endless", port(&endless)),
        ("boasting", port(&boasting)),
        ("lying", port(&lying)),
        ("closed", closed),
    ] {
        for (plugin, config, refused) in [
            ("limit-count", json!({ "count": 5, "time_window": 60 }), 500),
            ("limit-req", json!({ "rate": 5, "burst": 5, "key": "remote_addr" }), 500),
            (
                "limit-conn",
                json!({ "conn": 5, "burst": 5, "default_conn_delay": 0.1, "key": "remote_addr" }),
                500,
            ),
        ] {
            for (tolerant, status) in [(false, refused), (true, 200)] {
                let mut config = config.clone();
                for (key, value) in [
                    ("policy", json!("redis")),
                    ("redis_host", json!("127.0.0.1")),
                    ("redis_port", json!(port)),
                    ("redis_timeout", json!(300)),
                    ("allow_degradation", json!(tolerant)),
                ] {
                    config[key] = value;
                }
                let plugins = json!({ "plugins": { plugin: config } });
                gateway.route_with(&upstream.address(), &json!({}), &plugins);
                let started = Instant::now();
                assert_eq!(gateway.get("/").status(), status, "{what} {plugin} {tolerant}");
                let took = started.elapsed();
                assert!(took < Duration::from_secs(4), "{what} {plugin} {took:?}");
            }
        }
    }
    for words in ["failed to limit count: ", "failed to limit req: ", "failed to limit conn: "] {
        logged(&gateway, words);
    }
}

#[test]
fn a_server_that_hangs_or_crashes_is_asked_again() {
    if !Redis::is_installed() {
        return;
    }
    let (mut redis, upstream, gateway) = (Redis::start(&[]), Upstream::hello(), Gateway::start());
    limit(&gateway, &upstream, redis.port, &json!({ "redis_timeout": 300 }));
    let mut client = gateway.connect();
    assert_eq!(client.get("/").status(), 200);
    redis.stall();
    let started = Instant::now();
    assert_eq!(client.get("/").status(), 500);
    let took = started.elapsed();
    assert!((Duration::from_millis(280)..Duration::from_secs(4)).contains(&took), "{took:?}");
    logged(&gateway, "timed out while waiting for Redis' reply");
    redis.go_on();
    eventually("the server is asked again", || (client.get("/").status() == 200).then_some(()));
    // A connection that the server closed is replaced without an error.
    redis.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    for _ in 0..5 {
        assert_eq!(client.get("/").status(), 200, "{}", gateway.stderr());
    }
    redis.kill();
    assert_eq!(client.get("/").status(), 500);
    redis.restart();
    assert_eq!(client.get("/").status(), 200, "{}", gateway.stderr());
}

#[test]
fn a_client_that_leaves_ends_the_wait() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream) = (Redis::start(&[]), Upstream::hello());
    let gateway = Gateway::start();
    let conn = json!({ "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr", "policy": "redis",
        "redis_host": "127.0.0.1", "redis_port": redis.port, "redis_timeout": 20_000 });
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "limit-conn": conn } }));
    assert_eq!(gateway.get("/").status(), 200);
    eventually("nothing is under way", || redis.keys().is_empty().then_some(()));
    redis.stall();
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.is_quiet(Duration::from_millis(300)));
    drop(client);
    redis.go_on();
    // Redis may have counted the request before or after its client left; it counts no more in either case.
    eventually("nothing is under way", || {
        (gateway.get("/").status() == 200 && redis.keys().is_empty()).then_some(())
    });
}

#[test]
fn idle_connections_are_closed() {
    if !Redis::is_installed() {
        return;
    }
    let (redis, upstream, gateway) = (Redis::start(&[]), Upstream::hello(), Gateway::start());
    limit(&gateway, &upstream, redis.port, &json!({ "redis_keepalive_timeout": 1000 }));
    assert_eq!(gateway.get("/").status(), 200);
    let connections = || {
        let clients = redis.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
        clients.lines().filter(|line| !line.contains("cmd=client")).count()
    };
    assert_eq!(connections(), 1);
    eventually("the connection is closed", || (connections() == 0).then_some(()));
    assert_eq!(gateway.get("/").status(), 200);
}
