//! Any bytes whatever: no panic, and nothing refused changes the store.

use crate::bench::{Bench, route};
use admin::AdminRequest;
use proptest::prelude::*;
use serde_json::{Value, json};

const WORDS: [&str; 18] = [
    "routes",
    "services",
    "upstreams",
    "plugin_configs",
    "global_rules",
    "plugin_metadata",
    "plugins",
    "schema",
    "validate",
    "configs",
    "list",
    "reload",
    "1",
    "limit-count",
    "upstream",
    "nodes",
    "%00",
    "..",
];

fn path() -> impl Strategy<Value = String> {
    let likely = proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..5);
    prop_oneof![
        4 => likely.prop_map(|segments| format!("/apisix/admin/{}", segments.join("/"))),
        1 => any::<String>(),
        1 => any::<String>().prop_map(|tail| format!("/apisix/admin/routes/{tail}")),
    ]
}

fn query() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        any::<String>(),
        any::<String>()
            .prop_map(|value| format!("page={value}&page_size=10&ttl={value}&name={value}&filter={value}")),
        Just("force=true&all=true&schema_type=metadata&page=1&page_size=10".to_owned()),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("/hello")),
        Just(json!(1)),
    ];
    let names = prop_oneof![
        proptest::sample::select(
            &[
                "uri",
                "upstream",
                "nodes",
                "plugins",
                "limit-count",
                "vars",
                "id",
                "upstream_id",
                "labels",
                "tls"
            ][..]
        )
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((names.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let merged = json().prop_map(|extra| {
        let mut body = route();
        if let (Some(body), Some(extra)) = (body.as_object_mut(), extra.as_object()) {
            body.extend(extra.clone());
        }
        body.to_string().into_bytes()
    });
    prop_oneof![
        Just(Vec::new()),
        any::<Vec<u8>>(),
        json().prop_map(|value| value.to_string().into_bytes()),
        merged,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_request_panics_or_changes_what_it_is_refused(
        requests in proptest::collection::vec(
            (proptest::sample::select(&["GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "X"][..]), path(), query(), body()),
            1..8,
        )
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            bench.done("PUT", "/routes/1", route()).await;
            for (method, path, query, body) in requests {
                let before = bench.revision().await;
                let request = AdminRequest {
                    path,
                    query,
                    body_size: body.len() as u64,
                    body,
                    ..crate::bench::request(method, "", "")
                };
                let shown = format!("{request:?}");
                let reply = bench.admin.handle(request).await;
                assert!([200, 201, 400, 404, 405].contains(&reply.status), "{shown}: {reply:?}");
                if reply.status >= 400 {
                    assert_eq!(bench.revision().await, before, "{shown}: {reply:?}");
                }
            }
        });
    }
}
