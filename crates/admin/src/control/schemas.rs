//! `/v1/schema`: what may be configured in this process.

use crate::AdminResponse;
use model::Kind;
use model::schema::{hash_key, schema};
use plugin::{PluginDef, Registry};
use serde_json::{Map, Value, json};

/// The kinds that are shown, as APISIX names them.
const SHOWN: [Kind; 10] = [
    Kind::Consumer,
    Kind::ConsumerGroup,
    Kind::GlobalRule,
    Kind::PluginConfig,
    Kind::Proto,
    Kind::Route,
    Kind::Service,
    Kind::Ssl,
    Kind::StreamRoute,
    Kind::Upstream,
];

/// All schemas.
pub(super) fn all(registry: &Registry) -> AdminResponse {
    let mut main: Map<String, Value> =
        SHOWN.map(|kind| (kind.noun().replace(' ', "_"), schema(kind).clone())).into_iter().collect();
    main.insert("graphql_cost_decoration".to_owned(), schema(Kind::GraphqlCost).clone());
    main.insert("plugins".to_owned(), plugins());
    for hash_on in ["header", "vars"] {
        main.extend(hash_key(hash_on).map(|schema| (format!("upstream_hash_{hash_on}_schema"), schema)));
    }
    let streams = registry.streams().map(of_plugins).unwrap_or_default();
    AdminResponse::json(
        200,
        &json!({ "main": main, "plugins": of_plugins(registry), "stream_plugins": streams }),
    )
}

fn of_plugins(registry: &Registry) -> Map<String, Value> {
    registry.all().into_iter().map(|def| (def.name.to_string(), plugin(registry, &def))).collect()
}

/// The list of plugins to load, as it stands in the store where a deployment keeps it there.
fn plugins() -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "stream": {"type": "boolean"},
            },
            "required": ["name"],
        },
    })
}

fn plugin(registry: &Registry, def: &PluginDef) -> Value {
    let mut shown = Map::new();
    shown.insert("version".to_owned(), json!(0.1));
    shown.insert("priority".to_owned(), def.priority.into());
    let schemas = [
        ("schema", registry.schema(&def.name)),
        ("metadata_schema", registry.metadata_schema(&def.name)),
        ("consumer_schema", registry.consumer_schema(&def.name)),
    ];
    for (name, schema) in schemas {
        shown.extend(schema.map(|schema| (name.to_owned(), schema.clone())));
    }
    if def.is_auth() {
        shown.insert("type".to_owned(), "auth".into());
    }
    Value::Object(shown)
}
