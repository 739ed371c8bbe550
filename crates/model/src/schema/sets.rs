//! Schemas of the resources that are little more than a set of plugins.

use super::parts::{
    description, enable_websocket, hosts, id, labels, metadata, plugins, resource, script, timestamp, with,
};
use super::static_files::static_files;
use super::upstream::upstream;
use serde_json::{Value, json};

/// A service.
pub(super) fn service() -> Value {
    resource(
        metadata(),
        json!({
            "plugins": plugins(),
            "upstream": upstream(),
            "static": static_files(),
            "upstream_id": id(),
            "script": script(),
            "enable_websocket": enable_websocket(),
            "hosts": hosts(),
        }),
    )
}

/// A plugin config. Its name alone may be empty and of any length, as in APISIX.
pub(super) fn plugin_config() -> Value {
    let metadata = json!({
        "id": id(),
        "name": { "type": "string" },
        "desc": description(),
        "labels": labels(),
        "create_time": timestamp(),
        "update_time": timestamp(),
    });
    plugin_set(metadata)
}

/// A global rule.
pub(super) fn global_rule() -> Value {
    plugin_set(json!({ "id": id(), "create_time": timestamp(), "update_time": timestamp() }))
}

/// A plugin's metadata: whatever its plugin takes, which the plugin's own schema says.
pub(super) fn plugin_metadata() -> Value {
    json!({ "type": "object" })
}

fn plugin_set(metadata: Value) -> Value {
    let set = resource(metadata, json!({ "plugins": plugins() }));
    with(set, json!({ "required": ["id", "plugins"] }))
}
