//! `apisix.consumer`, and the metadata of plugins.

use super::host::Api;
use crate::lent;
use crate::vm::{self, Vm};
use mlua::{Lua, LuaString, Table, Value};
use plugin::{ConsumerInfo, Identity};
use serde_json::Value as Json;

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.put("consumers_version", |_, ()| lent::read(|exchange| exchange.consumers.revision()))?;
    api.put("consumers_of", consumers_of)?;
    api.put("consumer_named", |lua, name: String| {
        lent::read(|exchange| {
            let found = exchange.consumers.named(&name);
            found.map(|consumer| table_of(lua, consumer, None)).transpose()
        })?
    })?;
    // By the credential, which is named as `consumers_of` names it; without one the consumer is the anonymous one.
    api.put("attach_consumer", |_, (name, plugin, key): (String, Option<String>, Option<LuaString>)| {
        lent::edit(|exchange| {
            let consumers = exchange.consumers;
            match (plugin, key) {
                (Some(plugin), Some(key)) => {
                    let found = consumers.find_named(&plugin, &key.as_bytes());
                    found.map(|(identity, _)| exchange.attach(identity)).is_some()
                }
                _ => exchange.attach_anonymous(&name),
            }
        })
    })?;
    api.put("metadata", |lua, name: String| {
        let vm = Vm::of(lua)?;
        let current = vm.current.borrow();
        let own = current.name.as_deref() == Some(&*name);
        let metadata =
            current.instance.as_ref().filter(|_| own).and_then(|instance| instance.metadata.as_ref());
        let Some(metadata) = metadata else { return Ok(None) };
        let table = lua.create_table()?;
        table.raw_set("value", vm::to_lua(lua, metadata)?)?;
        Ok(Some(table))
    })
}

/// All consumers with credentials of a plugin, in the form of APISIX's; `nil` where there are none.
#[expect(clippy::needless_pass_by_value, reason = "a callback of Lua has its arguments")]
fn consumers_of(lua: &Lua, plugin: String) -> mlua::Result<Option<Table>> {
    lent::read(|exchange| {
        let nodes = lua.create_table()?;
        for (key, identity, data) in exchange.consumers.all_named(&plugin) {
            let node = table_of(lua, &identity.consumer, Some(identity))?;
            let config = data.downcast_ref::<Json>().unwrap_or(&Json::Null);
            node.raw_set("auth_conf", vm::to_lua(lua, config)?)?;
            node.raw_set("_plugin", plugin.as_str())?;
            node.raw_set("_key", lua.create_string(key)?)?;
            nodes.raw_push(node)?;
        }
        let length = nodes.raw_len();
        if length == 0 {
            return Ok(None);
        }
        let all = lua.create_table()?;
        all.raw_set("nodes", nodes)?;
        all.raw_set("len", length)?;
        Ok(Some(all))
    })?
}

fn table_of(lua: &Lua, consumer: &ConsumerInfo, identity: Option<&Identity>) -> mlua::Result<Table> {
    let members = consumer.stored.members().unwrap_or_default();
    let table = match vm::to_lua(lua, &Json::Object(members))? {
        Value::Table(table) => table,
        _ => lua.create_table()?,
    };
    table.raw_set("username", consumer.name.as_str())?;
    table.raw_set("consumer_name", consumer.name.as_str())?;
    if !consumer.group_id.is_empty() {
        table.raw_set("group_id", consumer.group_id.as_str())?;
    }
    if let Some(custom_id) = consumer.labels.get("custom_id") {
        table.raw_set("custom_id", custom_id.as_str())?;
    }
    table.raw_set("modifiedIndex", consumer.serial)?;
    if let Some(id) = identity.and_then(|identity| identity.credential_id.as_deref()) {
        table.raw_set("credential_id", id)?;
    }
    Ok(table)
}
