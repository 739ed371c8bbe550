use super::*;
use cache::{ZoneSpec, ZoneSpecs};
use plugin::testkit::{self, Bench};
use plugin::{Chain, Recorder, Registry, Verdict};
use serde_json::{Map, json};
use wire::{Method, ResponseHead};

fn registry() -> Registry {
    let registry = Registry::new(&[&DEF], Map::new()).expect("a valid schema");
    let zone = ZoneSpec { name: "m".to_owned(), memory_bytes: 1 << 20, disk: None };
    let specs = ZoneSpecs { zones: vec![zone], disk_ttl: Duration::from_secs(10) };
    registry.shared.insert(Arc::new(Zones::new(specs)));
    registry
}

fn chain(registry: &Registry, settings: &Value) -> Chain {
    let mut config = json!({"cache_strategy": "memory", "cache_zone": "m"});
    config.as_object_mut().expect("an object").extend(settings.as_object().cloned().unwrap_or_default());
    testkit::chain(registry, &json!({"proxy-cache": config})).expect("valid")
}

/// Status of the answer, `Apisix-Cache-Status` and body, where `upstream` is what an upstream would answer.
fn ask(chain: &Chain, request: &str, upstream: &str) -> (u16, String, String) {
    let bench = Bench::new(request);
    let mut exchange = bench.exchange();
    let reply = testkit::request(chain, &mut exchange);
    let mut body = String::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some(reply) = reply {
        exchange.status = reply.status;
    } else if let Some(kept) = exchange.extras.as_mut().and_then(|extras| extras.kept.take()) {
        exchange.status = 200;
        body = text(kept.body.piece(0, &mut []).unwrap());
    } else {
        let (head, sent) = upstream.split_once("\n\n").unwrap_or((upstream, ""));
        let head = format!("HTTP/1.1 {}\r\n\r\n", head.replace('\n', "\r\n"));
        let mut parsed = ResponseHead::default();
        assert!(parsed.parse(head.as_bytes(), Method::Get).unwrap());
        let made = UpstreamResponse { head: Some((&parsed, head.as_bytes())), reply: None };
        exchange.status = parsed.status;
        body = sent.to_owned();
        let keeper = exchange.extras.as_mut().and_then(|extras| extras.keeper.take());
        match keeper.map(|mut keeper| keeper.answered(&mut exchange, &made)) {
            Some(Verdict::Record(mut recorder)) => {
                recorder.piece(sent.as_bytes());
                Recorder::finish(recorder);
            }
            Some(Verdict::Instead(kept)) => {
                exchange.status = 200;
                body = text(kept.body.piece(0, &mut []).unwrap());
            }
            Some(Verdict::Pass) | None => {}
        }
    }
    let status = exchange.status;
    testkit::response(chain, &mut exchange, status);
    let said = exchange.reply_headers.get(b"apisix-cache-status").flatten().map(text).unwrap_or_default();
    (exchange.status, said, body)
}

/// `(status, cache status, body)` of one request after the other.
fn session(settings: &Value, exchanges: &[(&str, &str, (u16, &str, &str))]) {
    let registry = registry();
    let chain = chain(&registry, settings);
    for (number, (request, upstream, (status, said, body))) in exchanges.iter().enumerate() {
        let expected = (*status, (*said).to_owned(), (*body).to_owned());
        assert_eq!(ask(&chain, request, upstream), expected, "{settings} {number}: {request}");
    }
}

#[test]
fn what_was_kept_answers_until_it_is_purged() {
    session(
        &json!({}),
        &[
            ("GET /a", "200 OK\n\none", (200, "MISS", "one")),
            ("GET /a", "200 OK\n\ntwo", (200, "HIT", "one")),
            ("HEAD /a", "200 OK\n\ntwo", (200, "HIT", "one")),
            ("GET /a?b", "200 OK\n\ntwo", (200, "MISS", "two")),
            ("GET /a\nHost: b", "200 OK\n\nthree", (200, "MISS", "three")),
            ("POST /a", "200 OK\n\nfour", (200, "MISS", "four")),
            ("GET /a\nCache-Control: no-cache", "200 OK\n\nfive", (200, "HIT", "one")),
            ("PURGE /a", "", (200, "", "")),
            ("PURGE /a", "", (404, "", "")),
            ("GET /a", "200 OK\n\nsix", (200, "MISS", "six")),
        ],
    );
}

#[test]
fn what_must_not_be_kept_is_not() {
    for (settings, upstream) in [
        (json!({}), "500 Oh\n\n1"),
        (json!({}), "200 OK\nCache-Control: private\n\n1"),
        (json!({}), "200 OK\nSet-Cookie: a=b\n\n1"),
        (json!({}), "200 OK\nVary: *\n\n1"),
        (json!({"cache_http_status": [404]}), "200 OK\n\n1"),
        (json!({"no_cache": ["$arg_n"]}), "200 OK\n\n1"),
        (json!({"cache_control": true}), "200 OK\n\n1"),
        (json!({"max_resp_body_size": 1}), "200 OK\n\n12"),
    ] {
        let registry = registry();
        let chain = chain(&registry, &settings);
        assert_eq!(ask(&chain, "GET /?n=1", upstream).1, "MISS");
        assert_eq!(ask(&chain, "GET /?n=1", upstream).1, "MISS", "{settings} {upstream}");
    }
    session(
        &json!({"cache_bypass": ["$arg_b"], "cache_set_cookie": true}),
        &[
            ("GET /?b=1", "200 OK\n\n1", (200, "BYPASS", "1")),
            ("GET /?b=0", "200 OK\nSet-Cookie: a\n\n2", (200, "MISS", "2")),
            ("GET /?b=0", "200 OK\n\n3", (200, "HIT", "2")),
            ("PUT /?b=0", "200 OK\n\n4", (200, "MISS", "4")),
        ],
    );
}

#[test]
fn requests_have_a_say_where_they_are_heeded() {
    let fresh = "200 OK\nCache-Control: max-age=60\nAge: 10\n\n1";
    session(
        &json!({"cache_control": true}),
        &[
            ("GET /\nCache-Control: only-if-cached", "", (504, "MISS", "")),
            ("GET /", fresh, (200, "MISS", "1")),
            ("GET /\nCache-Control: only-if-cached", "", (200, "HIT", "1")),
            ("GET /\nCache-Control: no-cache", "200 OK\n\n2", (200, "BYPASS", "2")),
            ("GET /\nCache-Control: min-fresh=55", "200 OK\n\n3", (200, "STALE", "3")),
            (
                "GET /\nCache-Control: max-age=5",
                "200 OK\nCache-Control: max-age=60\n\n4",
                (200, "STALE", "4"),
            ),
            ("GET /", "", (200, "HIT", "4")),
        ],
    );
}

#[test]
fn variants_and_consumers_are_kept_apart() {
    let vary = "200 OK\nVary: Accept\n\n";
    session(
        &json!({}),
        &[
            ("GET /\nAccept: a", &format!("{vary}1"), (200, "MISS", "1")),
            ("GET /\nAccept: b", &format!("{vary}2"), (200, "MISS", "2")),
            ("GET /\nAccept: a", "", (200, "HIT", "1")),
            ("GET /\nAccept: a\nAuthorization: Basic dXNlcjpw", &format!("{vary}3"), (200, "MISS", "3")),
            ("GET /\nAccept: b", "", (200, "HIT", "2")),
            ("GET /\nAccept: a\nAccept: b", &format!("{vary}4"), (200, "MISS", "4")),
            ("GET /\nAccept: a, b", "", (200, "HIT", "4")),
        ],
    );
}

#[test]
fn old_responses_are_confirmed_or_stand_in() {
    let old = "200 OK\nCache-Control: max-age=10, stale-if-error=60\nAge: 9\nETag: \"e\"\n\n1";
    let young = "GET /\nCache-Control: max-age=0, min-fresh=5";
    session(
        &json!({"cache_control": true}),
        &[
            ("GET /", old, (200, "MISS", "1")),
            (young, "503 Oh\n\n2", (200, "STALE", "1")),
            (young, "304 Not Modified\nCache-Control: max-age=100", (200, "REVALIDATED", "1")),
            ("GET /", "", (200, "HIT", "1")),
        ],
    );
}

#[test]
fn the_upstream_is_asked_for_what_can_be_kept() {
    let registry = registry();
    let chain = chain(&registry, &json!({}));
    let bench = Bench::new("HEAD /\nRange: bytes=0-1\nIf-None-Match: \"a\"");
    let mut exchange = bench.exchange();
    assert!(testkit::request(&chain, &mut exchange).is_none());
    let request = &exchange.request;
    assert_eq!((request.header(b"range"), request.header(b"if-none-match")), (None, None));
    assert_eq!(request.edits.as_ref().and_then(|edits| edits.method.as_deref()), Some("GET"));
}

#[test]
fn mistakes_are_named() {
    let registry = registry();
    for (config, message) in [
        (json!({"cache_strategy": "memory", "cache_zone": "x"}), "cache_zone x not found"),
        (json!({"cache_zone": "m"}), "invalid or empty cache_zone for cache_strategy: disk"),
        (
            json!({"cache_strategy": "memory", "cache_zone": "m", "cache_key": ["$request_method"]}),
            "cache_key variable $request_method unsupported",
        ),
    ] {
        let errors = testkit::chain(&registry, &json!({"proxy-cache": config})).expect_err("refused");
        assert!(errors[0].message.ends_with(message), "{errors:?}");
    }
}
