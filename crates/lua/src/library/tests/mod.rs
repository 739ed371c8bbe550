//! The libraries, in a VM as the host opens it.

mod apisix;
mod crypto;
mod hostile;
mod json;
mod ngx;
mod reference;
mod regex;
mod structures;
mod tokens;

use mlua::{Lua, MultiValue, Value};

use super::{Values, open};

/// A VM with the libraries.
pub(super) fn vm() -> Lua {
    let lua = Lua::new();
    let schema_check = lua
        .load("return function(schema, value) return type(value) == schema.type, 'wrong type' end")
        .eval()
        .expect("it compiles");
    let values = Values {
        worker_id: 1,
        worker_count: 2,
        instance_id: "the-id".to_owned(),
        apisix_version: "3.18.0".to_owned(),
        prefix: "/opt/tidegate/".to_owned(),
        schema_check: Some(schema_check),
    };
    open(&lua, &values).expect("the libraries open");
    lua
}

/// What `code` returns: every value as `tostring` writes it, with `|` between them. Code without `return` is an expression.
pub(super) fn eval(lua: &Lua, code: &str) -> String {
    let code = if code.contains("return") { code.to_owned() } else { format!("return {code}") };
    let values: MultiValue = lua.load(&code).eval().unwrap_or_else(|error| panic!("{code}: {error}"));
    let tostring: mlua::Function = lua.globals().get("tostring").expect("it is there");
    let shown = values.into_iter().map(|value: Value| {
        let text: mlua::LuaString = tostring.call(value).expect("it doesn't fail");
        text.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>()
    });
    shown.collect::<Vec<_>>().join("|")
}

/// Evaluates each row's code in one VM and compares.
pub(super) fn check(rows: &[(&str, &str)]) {
    let lua = vm();
    for (code, expected) in rows {
        assert_eq!(eval(&lua, code), *expected, "{code}");
    }
}

#[test]
fn every_library_loads() {
    let lua = vm();
    lua.globals().set("ngx_header", 1).expect("it is set");
    for (name, _) in super::modules::MODULES {
        assert!(eval(&lua, &format!("type(require('{name}'))")).starts_with("table"), "{name}");
        assert_eq!(eval(&lua, &format!("require('{name}') == require('{name}')")), "true", "{name}");
    }
}

#[test]
fn the_values_of_the_host_are_there() {
    check(&[
        ("ngx.worker.id(), ngx.worker.count(), ngx.config.prefix()", "1|2|/opt/tidegate/"),
        ("require('apisix.core.id').get(), require('apisix.core.version').VERSION", "the-id|3.18.0"),
        ("require('apisix.core.schema').check({type='string'}, 'x')", "true|wrong type"),
        ("require('apisix.core.schema').check({type='string'}, 1)", "false|wrong type"),
    ]);
}

#[test]
fn the_libraries_open_in_little_memory() {
    let lua = Lua::new();
    let before = lua.used_memory();
    open(&lua, &Values::default()).expect("the libraries open");
    lua.gc_collect().expect("it collects");
    let bytes = lua.used_memory() - before;
    // 47 libraries that nobody requires, as closures, and `ngx`.
    assert!(bytes < 64 << 10, "{bytes}");
}
