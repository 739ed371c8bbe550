//! The upstream of a request, and the node that would be asked.

use balance::{Algorithm, Pick};
use plugin::Exchange;
use serde_json::{Value, json};
use snapshot::{Node, Upstream};

/// `from` is where the upstream is configured.
pub(super) fn tell(upstream: &Upstream, exchange: &Exchange<'_>, from: &Value) -> Value {
    let key = upstream.hashed(exchange);
    let picked = upstream.balancer(0).pick(&Pick { key: &key, ..Pick::default() });
    let takers = upstream.nodes.iter().filter(|node| node.weight > 0).count();
    // A hash is the same for every worker; the other algorithms depend on what each of them has done so far.
    let certain = takers < 2 || upstream.algorithm == Algorithm::Chash;
    let shown = |node: &Node| json!({ "host": node.host.to_string(), "port": node.port, "weight": node.weight, "priority": node.priority });
    json!({
        "from": from,
        "type": upstream.algorithm.as_str(),
        "scheme": upstream.scheme.as_str(),
        "hash_key": (upstream.algorithm == Algorithm::Chash).then(|| String::from_utf8_lossy(&key).into_owned()),
        "nodes": upstream.nodes.iter().map(shown).collect::<Value>(),
        "node": picked.and_then(|at| upstream.nodes.get(at)).map(shown),
        "node_is": if certain { "certain" } else { "one of several" },
    })
}
