//! Reports the numbers of connections and requests at `/apisix/status`.
//!
//! ## When to use
//! Use it with monitoring that was made for nginx's stub status. The endpoint exists while the plugin is in the
//! `plugins` list; a route with `public-api` exposes it to clients.
//!
//! ## Example
//! ```json
//! {
//!     "node-status": {}
//! }
//! ```
//! `GET /apisix/status` then answers
//! `{"id":"...","status":{"accepted":"22","active":"2","handled":"22","reading":"0","total":"36","waiting":"1","writing":"1"}}`.
//! Configuring it in a resource changes nothing.
//!
//! ## Differences from APISIX
//! - The answer is `application/json`, not plain text.

use model::ConfigError;
use observe::Metrics;
use plugin::{ApiContext, CompileContext, Exchange, Flow, Plugin, PluginDef, PublicApi, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<NodeStatus>("node-status", 1000).public_apis(public_apis).build()
}

/// What a user writes: nothing.
#[derive(Debug, Deserialize)]
pub struct Config {}

/// The compiled form.
pub struct NodeStatus;

impl Plugin for NodeStatus {
    type Config = Config;

    fn compile(_: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }
}

fn public_apis(cx: ApiContext<'_>) -> Vec<PublicApi> {
    let metrics: Arc<Metrics> = cx.shared.get();
    vec![PublicApi::get("/apisix/status", move |exchange| status(&metrics, exchange))]
}

fn status(metrics: &Metrics, exchange: &Exchange<'_>) -> Flow {
    let totals = metrics.connections.totals();
    // Numbers as text, as nginx's page has them.
    let status = [
        ("accepted", totals.accepted),
        ("active", totals.active),
        ("handled", totals.handled),
        ("reading", totals.reading),
        ("total", totals.requests),
        ("waiting", totals.waiting),
        ("writing", totals.writing),
    ];
    let status: serde_json::Map<_, _> =
        status.into_iter().map(|(name, count)| (name.to_owned(), count.to_string().into())).collect();
    let body = json!({ "id": exchange.gateway.id, "status": status });
    Flow::reply(Reply::text(200, body.to_string()).with_header("Content-Type", "application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::metrics::State;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn connections_and_requests_are_told() {
        let registry = Registry::new(crate::all(), serde_json::Map::new()).expect("valid schemas");
        let chain = testkit::chain(&registry, &json!({"public-api": {}})).expect("valid");
        let bench = Bench::new("GET /apisix/status");
        let mut exchange = bench.exchange();
        let connections = &registry.shared.get::<Metrics>();
        connections.connections.accepted(exchange.worker);
        connections.connections.opened(exchange.worker, State::Writing);
        connections.connections.requested(exchange.worker);
        let reply = testkit::request(&chain, &mut exchange).expect("an answer");
        let body: Value = serde_json::from_slice(&reply.body.expect("a body")).expect("JSON");
        let expected = json!({"accepted": "1", "active": "1", "handled": "1", "reading": "0", "total": "1", "waiting": "0", "writing": "1"});
        assert_eq!(body, json!({"id": "an-id", "status": expected}));
    }
}
