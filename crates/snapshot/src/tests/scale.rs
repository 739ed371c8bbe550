//! A change among many routes costs what it costs among few.

use super::fixture::{Gateway, entry, put};
use serde_json::json;

const ROUTES: u32 = 100_000;

#[test]
fn one_change_among_a_hundred_thousand_routes_compiles_and_links_one() {
    let route = |n: u32, node: u32| {
        json!({"uri": format!("/api/{n}/*"), "plugins": {"alpha": {"text": "x"}},
            "upstream": {"type": "roundrobin", "nodes": {format!("127.0.0.1:{node}"): 1}}})
    };
    let mut gateway = Gateway::new();
    let entries: Vec<_> =
        (0..ROUTES).map(|n| entry(&format!("/routes/{n}"), &route(n, 1980).to_string())).collect();
    gateway.snapshot = gateway.builder.load(1, &entries);
    assert_eq!(
        (gateway.snapshot.router.len(), gateway.builder.routes_linked()),
        (ROUTES as usize, u64::from(ROUTES))
    );

    let before = gateway.snapshot.clone();
    let compiled = gateway.compiled();
    let mut changed = route(77_777, 1981);
    changed["plugins"]["alpha"]["text"] = json!("y");
    gateway.apply(&[put("/routes/77777", &changed)]);
    assert_eq!(gateway.builder.routes_linked(), u64::from(ROUTES) + 1);
    assert_eq!(gateway.compiled(), compiled + 1);
    let port =
        |gateway: &Gateway| gateway.route("/api/77777/x").upstream.as_ref().expect("one").nodes[0].port;
    assert_eq!(port(&gateway), 1981);
    gateway.snapshot = before;
    assert_eq!(port(&gateway), 1980, "the snapshot before is as it was");
}
