use super::*;
use cache::{ZoneSpec, ZoneSpecs};
use plugin::testkit::{self, Bench};
use plugin::{Chain, Recorder, Registry, Verdict};
use serde_json::{Map, json};
use wire::{Method, ResponseHead};

fn registry() -> Registry {
    let registry = Registry::new([def()], Map::new()).expect("a valid schema");
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
    ask_with(chain, &mut bench.exchange(), upstream)
}

fn ask_with(chain: &Chain, exchange: &mut Exchange<'_>, upstream: &str) -> (u16, String, String) {
    let reply = testkit::request(chain, exchange);
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
        match keeper.map(|mut keeper| keeper.answered(exchange, &made)) {
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
        chain.response.iter().for_each(|step| step.hook.response(exchange, &made));
    }
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
            ("POST /b", "200 OK\n\nfour", (200, "MISS", "four")),
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
        (json!({"cache_http_status": [206]}), "206 Partial Content\nContent-Range: bytes 0-0/1\n\n1"),
        (json!({"cache_http_status": [304]}), "304 Not Modified\n\n"),
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

const PUBLIC: &str = "200 OK\nCache-Control: public\n\n";

#[test]
fn what_one_client_got_for_its_credentials_is_not_given_to_others() {
    let (victim, basic) = ("GET /\nAuthorization: Bearer victim", "GET /\nAuthorization: Basic dXNlcjpw");
    let wrong = "GET /\nAuthorization: Basic dXNlcjp3cm9uZw==";
    // RFC 9111 section 3.5.
    for settings in
        [json!({}), json!({"consumer_isolation": false}), json!({"cache_key": ["$uri", "$remote_user"]})]
    {
        let exchanges = [
            (victim, "200 OK\n\n1", (200, "MISS", "1")),
            ("GET /", "200 OK\n\n2", (200, "MISS", "2")),
            ("GET /", "", (200, "HIT", "2")),
        ];
        session(&settings, &exchanges);
    }
    session(
        &json!({}),
        &[
            (basic, "200 OK\n\n1", (200, "MISS", "1")),
            // The name is the same, and the password is wrong.
            (wrong, "200 OK\n\n2", (200, "MISS", "2")),
            (victim, &format!("{PUBLIC}3"), (200, "MISS", "3")),
            ("GET /", "", (200, "HIT", "3")),
        ],
    );
    session(
        &json!({"cache_key": ["$uri", "$http_authorization"]}),
        &[
            (basic, "200 OK\n\n1", (200, "MISS", "1")),
            (wrong, "200 OK\n\n2", (200, "MISS", "2")),
            (basic, "", (200, "HIT", "1")),
        ],
    );
}

#[test]
fn what_a_consumer_got_is_kept_for_it_alone() {
    let registry = registry();
    let chain = chain(&registry, &json!({}));
    let [jack, jill, nobody] = ["jack", "jill", "nobody"]
        .map(|name| plugin::ConsumerInfo { name: name.to_owned(), ..plugin::ConsumerInfo::default() });
    for (consumer, anonymous, upstream, (said, body)) in [
        (&jack, false, "200 OK\n\n1", ("MISS", "1")),
        (&jack, false, "", ("HIT", "1")),
        (&jill, false, "200 OK\n\n2", ("MISS", "2")),
        // Credentials that nobody has checked, under a name that many have.
        (&nobody, true, "200 OK\n\n3", ("MISS", "3")),
        (&nobody, true, "200 OK\n\n4", ("MISS", "4")),
    ] {
        let bench = Bench::new("GET /\nAuthorization: Bearer x");
        let mut exchange = bench.exchange();
        (exchange.consumer, exchange.anonymous) = (Some(consumer), anonymous);
        let (_, got, content) = ask_with(&chain, &mut exchange, upstream);
        assert_eq!((got.as_str(), content.as_str()), (said, body), "{}", consumer.name);
    }
    // Asked behind a client's back, where nobody knows the consumer any more.
    let bench = Bench::new("GET /behind\nAuthorization: Bearer x");
    let mut exchange = bench.exchange();
    exchange.consumer = Some(&jack);
    assert!(testkit::request(&chain, &mut exchange).is_none());
    exchange.consumer = None;
    let head = b"HTTP/1.1 200 OK\r\n\r\n";
    let mut parsed = ResponseHead::default();
    assert!(parsed.parse(head, Method::Get).unwrap());
    exchange.status = 200;
    let made = UpstreamResponse { head: Some((&parsed, head)), reply: None };
    let mut keeper = exchange.extras().keeper.take().expect("one that asks");
    assert!(matches!(keeper.answered(&mut exchange, &made), Verdict::Record(_)));
    // Basic authentication that claims a consumer's name is not that consumer.
    let (_, said, _) = ask(&chain, "GET /\nAuthorization: Basic amFjazp4", "200 OK\n\n5");
    assert_eq!(said, "MISS");
}

#[test]
fn a_key_tells_apart_what_the_upstream_can_tell_apart() {
    let ok = |body: &str| format!("200 OK\n\n{body}");
    session(
        &json!({}),
        &[
            ("GET /x%2fy", &ok("1"), (200, "MISS", "1")),
            ("GET /x/y", &ok("2"), (200, "MISS", "2")),
            ("GET /x%2Fy", &ok("3"), (200, "MISS", "3")),
            ("GET /x//y", &ok("4"), (200, "MISS", "4")),
            ("GET /z/../x/y", &ok("5"), (200, "MISS", "5")),
            ("GET /x%2fy", "", (200, "HIT", "1")),
            ("GET /x/y", "", (200, "HIT", "2")),
            ("GET /x/y?", &ok("6"), (200, "HIT", "2")),
            ("GET /x/y\nHost: localhost:8080", &ok("7"), (200, "MISS", "7")),
            ("GET /x/y\nHost: LOCALHOST", &ok("8"), (200, "MISS", "8")),
            ("GET /x/y", "", (200, "HIT", "2")),
            ("PURGE /x%2fy", "", (200, "", "")),
            ("GET /x%2fy", &ok("9"), (200, "MISS", "9")),
            ("GET /x/y", "", (200, "HIT", "2")),
        ],
    );
    // A key without path and host is the operator's word that these don't matter.
    session(
        &json!({"cache_key": ["$arg_id"]}),
        &[
            ("GET /%61?id=1\nHost: A:80", &ok("1"), (200, "MISS", "1")),
            ("GET /b?id=1", "", (200, "HIT", "1")),
        ],
    );
    session(
        &json!({"cache_key": ["$uri", "$arg_x"]}),
        &[("GET /a?x=b", &ok("1"), (200, "MISS", "1")), ("GET /ab", &ok("2"), (200, "MISS", "2"))],
    );
}

#[test]
fn a_get_with_a_body_passes_by_the_cache() {
    let fat = "GET /\nContent-Length: 1";
    for (settings, said) in [(json!({}), "BYPASS"), (json!({"cache_control": true}), "BYPASS")] {
        let fresh = "200 OK\nCache-Control: max-age=9\n\n";
        session(
            &settings,
            &[
                (fat, &format!("{fresh}1"), (200, said, "1")),
                ("GET /", &format!("{fresh}2"), (200, "MISS", "2")),
                (fat, &format!("{fresh}3"), (200, said, "3")),
                ("GET /", "", (200, "HIT", "2")),
            ],
        );
    }
}

#[test]
fn a_change_makes_what_is_kept_invalid() {
    let ok = |body: &str| format!("200 OK\n\n{body}");
    for (request, upstream, hit) in [
        ("PUT /a?b", "200 OK\n\n", false),
        ("POST /a?b", "201 Created\n\n", false),
        ("DELETE /a?b", "302 Found\n\n", false),
        ("PATCH /%61?b", "200 OK\n\n", false),
        ("FOO /a?b", "200 OK\n\n", false),
        ("POST /other", "201 Created\nLocation: /a?b\n\n", false),
        ("POST /other", "201 Created\nContent-Location: http://localhost/a?b#c\n\n", false),
        ("POST /other", "201 Created\nLocation: http://evil.test/a?b\n\n", true),
        ("POST /other", "201 Created\nLocation: //localhost/a?b\n\n", true),
        ("PUT /a?c", "200 OK\n\n", true),
        ("PUT /a?b\nHost: b.test", "200 OK\n\n", true),
        ("PUT /a?b", "404 Not Found\n\n", true),
        ("PUT /a?b", "500 Oh\n\n", true),
        ("OPTIONS /a?b", "200 OK\n\n", true),
    ] {
        let registry = registry();
        let chain = chain(&registry, &json!({}));
        assert_eq!(ask(&chain, "GET /a?b", &ok("1")).1, "MISS");
        ask(&chain, request, upstream);
        let said = ask(&chain, "GET /a?b", &ok("2")).1;
        assert_eq!(said == "HIT", hit, "{request} {upstream}");
    }
    // Whatever the key, and whoever's the entry.
    session(
        &json!({"cache_key": ["$uri", "$http_x"]}),
        &[
            ("GET /a\nX: 1", &ok("1"), (200, "MISS", "1")),
            ("PUT /a", &ok("2"), (200, "MISS", "2")),
            ("GET /a\nX: 1", &ok("3"), (200, "MISS", "3")),
        ],
    );
    // POSTs that the operator keeps are questions.
    session(
        &json!({"cache_method": ["GET", "POST"]}),
        &[
            ("GET /a", &ok("1"), (200, "MISS", "1")),
            ("POST /a", &ok("2"), (200, "MISS", "2")),
            ("GET /a", "", (200, "HIT", "1")),
        ],
    );
}

#[test]
fn requests_directives_are_heeded_together() {
    let fresh = "200 OK\nCache-Control: max-age=60\nAge: 10\n\n1";
    for (directives, expected) in [
        ("only-if-cached, no-cache", (504, "BYPASS")),
        ("only-if-cached, max-age=5", (504, "MISS")),
        ("only-if-cached, max-age=15", (200, "HIT")),
        ("no-store", (200, "BYPASS")),
        ("max-age=15, min-fresh=49", (200, "HIT")),
        ("max-age=15, min-fresh=51", (200, "STALE")),
        ("max-age=x", (200, "HIT")),
    ] {
        let registry = registry();
        let chain = chain(&registry, &json!({"cache_control": true}));
        assert_eq!(ask(&chain, "GET /", fresh).1, "MISS");
        let request = format!("GET /\nCache-Control: {directives}");
        let (status, said, _) = ask(&chain, &request, "200 OK\n\n2");
        assert_eq!((status, said.as_str()), expected, "{directives}");
    }
}

#[test]
fn a_confirmation_changes_what_it_speaks_of() {
    let old = "200 OK\nCache-Control: max-age=10\nAge: 9\nETag: \"e\"\n\n1";
    let young = "GET /\nCache-Control: min-fresh=5";
    for (confirmation, after) in [
        ("304 Not Modified\nCache-Control: max-age=100\nETag: \"e\"", "HIT"),
        // Of something else, or no longer to be kept: it is fetched again.
        ("304 Not Modified\nCache-Control: max-age=100\nETag: \"f\"", "MISS"),
        ("304 Not Modified\nCache-Control: no-store", "MISS"),
        ("304 Not Modified\nCache-Control: private", "MISS"),
    ] {
        let registry = registry();
        let chain = chain(&registry, &json!({"cache_control": true}));
        assert_eq!(ask(&chain, "GET /", old).1, "MISS");
        assert_eq!(ask(&chain, young, confirmation).2, "1", "{confirmation}");
        assert_eq!(ask(&chain, "GET /", "200 OK\n\n2").1, after, "{confirmation}");
    }
    // Nothing to confirm: the 304 is nobody's.
    session(
        &json!({"cache_control": true}),
        &[
            ("GET /", "200 OK\nCache-Control: max-age=10\nAge: 9\n\n1", (200, "MISS", "1")),
            (young, "304 Not Modified\nCache-Control: max-age=100", (304, "STALE", "")),
        ],
    );
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
