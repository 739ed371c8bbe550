use super::*;
use plugin::testkit::{self, Bench};
use plugin::{Chain, Ingredients, Parent, Registry, Reply};
use serde_json::json;
use std::time::Duration;

fn registry() -> Registry {
    Registry::new([def()], serde_json::Map::new()).expect("a valid schema")
}

fn chain(registry: &Registry, config: &Value) -> Chain {
    testkit::chain(registry, &json!({"limit-count": config})).expect("a valid configuration")
}

/// The statuses of requests (method, path and headers as the bench takes them), each `after_ms` the start.
fn statuses(chain: &Chain, requests: &[(&str, u64)]) -> Vec<u16> {
    let start = stdx::Moment::now();
    let one = |(text, after_ms): &(&str, u64)| {
        let bench = Bench::new(text);
        let mut exchange = bench.exchange();
        exchange.timing.started = start + Duration::from_millis(*after_ms);
        testkit::access(chain, &mut exchange)
    };
    requests.iter().map(one).collect()
}

/// The header lines that a request's response gets besides the upstream's.
fn headers(chain: &Chain, request: &str) -> String {
    let bench = Bench::new(request);
    let mut exchange = bench.exchange();
    testkit::access(chain, &mut exchange);
    let mut out = Vec::new();
    exchange.reply_headers.write(&mut out);
    String::from_utf8(out).expect("ascii")
}

fn reply(chain: &Chain, request: &str) -> Reply {
    let bench = Bench::new(request);
    match chain.access[0].hook.access(&mut bench.exchange()) {
        Flow::Reply(reply) => *reply,
        flow => panic!("{flow:?}"),
    }
}

#[test]
fn requests_beyond_the_count_are_rejected_until_the_window_ends() {
    let registry = registry();
    let chain = chain(&registry, &json!({"count": 2, "time_window": 60, "rejected_code": 429}));
    let get = |after_ms| ("GET /", after_ms);
    let asked = [get(0), get(10), get(20), get(59_000), get(60_000), get(60_001), get(60_002)];
    assert_eq!(statuses(&chain, &asked), [0, 0, 429, 429, 0, 0, 429]);
}

#[test]
fn clients_are_told_where_they_stand() {
    let registry = registry();
    let chain = chain(&registry, &json!({"count": 2, "time_window": 60}));
    let first = headers(&chain, "GET /");
    assert_eq!(first, "X-RateLimit-Limit: 2\r\nX-RateLimit-Remaining: 1\r\nX-RateLimit-Reset: 60\r\n");
    assert!(headers(&chain, "GET /").contains("X-RateLimit-Remaining: 0\r\n"));
    let rejected = headers(&chain, "GET /");
    assert!(rejected.starts_with("X-RateLimit-Limit: 2\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: "));
}

#[test]
fn headers_can_be_hidden() {
    let registry = registry();
    let config = json!({"count": 1, "time_window": 60, "show_limit_quota_header": false});
    assert_eq!(headers(&chain(&registry, &config), "GET /"), "");
}

#[test]
fn rejections_carry_the_status_and_message_asked_for() {
    let registry = registry();
    for (route, config, status, body) in [
        ("/routes/1", json!({"count": 1, "time_window": 60, "key_type": "constant", "key": "a"}), 503, None),
        (
            "/routes/2",
            json!({"count": 1, "time_window": 60, "rejected_code": 400, "rejected_msg": "no \"more\""}),
            400,
            Some("{\"error_msg\":\"no \\\"more\\\"\"}\n"),
        ),
    ] {
        let chain = chain_at(&registry, route, &config);
        headers(&chain, "GET /");
        let reply = reply(&chain, "GET /");
        assert_eq!(reply.status, status);
        assert_eq!(reply.body.as_deref(), body.map(str::as_bytes));
    }
}

fn chain_at(registry: &Registry, resource_key: &str, config: &Value) -> Chain {
    let parent = Parent { resource_key, config_version: 1 };
    Chain::new(vec![
        registry
            .compile_one("limit-count", config, Ingredients::default(), parent)
            .expect("a valid configuration"),
    ])
}

#[test]
fn keys_of_each_type_count_apart() {
    let registry = registry();
    for (at, (key_type, key, requests, expected)) in [
        ("var", "http_x", [("GET /\nX: a", 0), ("GET /\nX: b", 0), ("GET /\nX: a", 0)], [0, 0, 503]),
        ("var", "http_none", [("GET /\nX: a", 0), ("GET /\nX: b", 0), ("GET /", 0)], [0, 503, 503]),
        (
            "var_combination",
            "$remote_addr $http_x",
            [("GET /\nX: a", 0), ("GET /", 0), ("GET /\nX: a", 0)],
            [0, 0, 503],
        ),
        ("var_combination", "$http_none", [("GET /", 0), ("GET /", 0), ("GET /a", 0)], [0, 503, 503]),
        ("constant", "http_x", [("GET /\nX: a", 0), ("GET /\nX: b", 0), ("GET /", 0)], [0, 503, 503]),
        ("var", "arg_a", [("GET /?a=1", 0), ("GET /?a=2", 0), ("GET /?a=1", 0)], [0, 0, 503]),
    ]
    .into_iter()
    .enumerate()
    {
        let config = json!({"count": 1, "time_window": 60, "key_type": key_type, "key": key});
        let chain = chain_at(&registry, &format!("/routes/{at}"), &config);
        assert_eq!(statuses(&chain, &requests), expected, "{key_type} {key}");
    }
}

#[test]
fn client_addresses_count_apart() {
    let registry = registry();
    let chain = chain(&registry, &json!({"count": 1, "time_window": 60}));
    let status = |ip: &str| {
        let bench = Bench::new("GET /").from_ip(ip);
        testkit::access(&chain, &mut bench.exchange())
    };
    let ips = ["10.0.0.1", "10.0.0.2", "10.0.0.1", "::1", "::1", "::ffff:10.0.0.2"];
    assert_eq!(ips.map(status), [0, 0, 503, 0, 503, 503]);
}

#[test]
fn numbers_may_come_from_the_request() {
    let registry = registry();
    let config = json!({"count": "${http_count ?? 2}", "time_window": "${http_tw ?? 5}"});
    let chain = chain(&registry, &config);
    let one = |text: &str| statuses(&chain, &[(text, 0)])[0];
    assert_eq!([one("GET /"), one("GET /"), one("GET /")], [0, 0, 503]);
    // The window goes on; only what it allows changes.
    assert_eq!(one("GET /\ncount: 5"), 0);
    for count in ["0", "-1", "1.5", "9999999999999999", "many", "inf"] {
        assert_eq!(one(&format!("GET /\ncount: {count}")), 500, "{count}");
    }
}

#[test]
fn rules_apply_where_their_key_has_a_value() {
    let registry = registry();
    let config = json!({"rejected_msg": "rejected", "rules": [
        {"key": "${http_user}", "count": "${http_jack_count}", "time_window": 60},
        {"key": "${http_project}", "count": 1, "time_window": 60, "header_prefix": "bar"}
    ]});
    let chain = chain(&registry, &config);
    let one = |text: &str| statuses(&chain, &[(text, 0)])[0];
    assert_eq!(one("GET /"), 500, "no rule applies");
    let jack = "GET /\nuser: jack\njack-count: 2";
    assert_eq!([one(jack), one(jack), one(jack)], [0, 0, 503]);
    assert_eq!(one("GET /\nproject: a\nuser: joe"), 500, "a rule that applies needs its number");
    let both = headers(&chain, "GET /\nproject: a\nuser: joe\njack-count: 3");
    assert!(both.contains("X-1-RateLimit-Remaining: 2\r\n"), "{both}");
    assert!(both.contains("X-bar-RateLimit-Remaining: 0\r\n"), "{both}");
}

#[test]
fn degradation_lets_pass_what_can_not_be_counted() {
    let registry = registry();
    let config = json!({"count": "$http_count", "time_window": 5, "allow_degradation": true});
    assert_eq!(statuses(&chain(&registry, &config), &[("GET /", 0)]), [0]);
}

#[test]
fn sliding_windows_remember_the_one_before() {
    let registry = registry();
    let config = json!({"count": 10, "time_window": 10, "window_type": "sliding"});
    let chain = chain(&registry, &config);
    let state: Arc<State> = registry.shared.get();
    // The next window's first millisecond, so that the test knows where in it requests fall.
    let now = stdx::Moment::now();
    let to_start = 10_000 - state.clock.unix_ms(now) % 10_000;
    let at = |after_ms: u64, times: usize| vec![("GET /", to_start + after_ms); times];
    let mut requests = at(5_000, 11);
    requests.extend(at(15_000, 6));
    let got = statuses(&chain, &requests);
    let admitted = |part: &[u16]| part.iter().filter(|status| **status == 0).count();
    assert_eq!(admitted(&got[..11]), 10);
    assert_eq!(admitted(&got[11..]), 5, "half of the window before is still in sight");
}

#[test]
fn counters_belong_to_the_place_of_the_configuration_or_to_the_group() {
    let registry = registry();
    let one = |resource_key: &str, config: &Value| {
        statuses(&chain_at(&registry, resource_key, config), &[("GET /", 0)])[0]
    };
    let own = json!({"count": 1, "time_window": 60});
    assert_eq!([one("/routes/1", &own), one("/routes/2", &own), one("/routes/1", &own)], [0, 0, 503]);
    let grouped = json!({"count": 1, "time_window": 60, "group": "g"});
    assert_eq!([one("/routes/1", &grouped), one("/routes/2", &grouped)], [0, 503]);
}

#[test]
fn a_group_has_one_configuration_while_it_is_used() {
    let registry = registry();
    let config = |count| json!({"count": count, "time_window": 60, "group": "g"});
    let first = chain_at(&registry, "/routes/1", &config(1));
    let join = |count| testkit::chain(&registry, &json!({"limit-count": config(count)}));
    assert!(join(1).is_ok());
    let errors = join(2).expect_err("another count");
    assert_eq!(errors[0].path, "/limit-count/group");
    assert!(errors[0].message.ends_with("group conf mismatched"), "{}", errors[0]);
    drop(first);
    assert!(join(2).is_ok());
}

#[test]
fn configurations_are_accepted_and_refused_as_by_apisix() {
    let registry = registry();
    let rule = json!({"count": 1, "time_window": 1, "key": "$http_a"});
    let both = "count/time_window and rules cannot be specified at the same time";
    for (config, expected) in [
        (json!({"count": 1, "time_window": 1}), None),
        (json!({"count": 2_000_000_000_000u64, "time_window": 60, "key": "remote_addr"}), None),
        (json!({"count": 1e3, "time_window": 1}), None),
        (json!({"rules": [rule]}), None),
        (json!({"rules": []}), None),
        (json!({"count": 1, "time_window": 1, "unknown": true}), None),
        (json!({}), Some("value should match only one schema, but matches none")),
        (json!({"count": 1}), Some("value should match only one schema, but matches none")),
        (json!({"count": 0, "time_window": 1}), Some("value should match only one schema, but matches none")),
        (
            json!({"count": -1, "time_window": 1}),
            Some("value should match only one schema, but matches none"),
        ),
        (
            json!({"count": 1.5, "time_window": 1}),
            Some("value should match only one schema, but matches none"),
        ),
        (json!({"count": 1, "time_window": 1, "key_type": "x"}), Some("matches none of the enum values")),
        (
            json!({"count": 1, "time_window": 1, "rejected_code": 199}),
            Some("expected 199 to be at least 200"),
        ),
        (json!({"count": 1, "time_window": 1, "rejected_msg": ""}), Some("string too short")),
        (json!({"count": 1, "time_window": 1, "rules": [rule]}), Some(both)),
        (json!({"count": 1, "rules": [rule]}), Some(both)),
        (
            json!({"rules": [rule], "group": "g"}),
            Some("group and rules cannot be specified at the same time"),
        ),
        (json!({"rules": [rule, rule]}), Some("duplicate key '$http_a' in rules")),
        (json!({"count": 1, "time_window": 1, "policy": "redis"}), Some("then clause did not match")),
        (json!({"count": 1, "time_window": 1, "policy": "redis", "redis_host": "127.0.0.1"}), None),
        (
            json!({"count": 1, "time_window": 2, "policy": "redis", "redis_host": "a1", "sync_interval": 0.1}),
            None,
        ),
        (
            json!({"count": 1, "time_window": 2, "policy": "redis", "redis_host": "a1", "sync_interval": 0.05}),
            Some("sync_interval should not be smaller than 0.1"),
        ),
        (
            json!({"count": 1, "time_window": 2, "policy": "redis", "redis_host": "a1", "sync_interval": 2}),
            Some("sync_interval should be smaller than time_window"),
        ),
        (json!({"count": 1, "time_window": 2, "sync_interval": 5}), None),
    ] {
        match (testkit::chain(&registry, &json!({"limit-count": config})), expected) {
            (Ok(_), None) => {}
            (Err(errors), Some(expected)) => {
                let mut shown = errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>();
                shown.extend(registry.check_config("limit-count", &config).and_then(|report| report.first));
                assert!(shown.iter().any(|message| message.contains(expected)), "{config}: {shown:?}");
                assert!(errors.iter().all(|error| error.path.starts_with("/limit-count")), "{errors:?}");
            }
            (result, _) => panic!("{config}: {result:?}"),
        }
    }
}
