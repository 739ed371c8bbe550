//! cjson: what OpenResty documents, and what Debian's lua-cjson 2.1.0 answers.

use proptest::prelude::*;

use super::{check, eval, vm};

#[test]
fn values_encode_as_with_lua_cjson() {
    check(&[
        ("require('cjson').encode('a\\b/\"\\0\\127\\200')", "\"a\\b\\/\\\"\\u0000\\u007f\u{c8}\""),
        ("require('cjson').encode({1, 'a', true, ngx.null})", "[1,\"a\",true,null]"),
        ("require('cjson').encode({a = {b = 1.5}})", "{\"a\":{\"b\":1.5}}"),
        ("require('cjson').encode({[1] = 1, [3] = 3})", "[1,null,3]"),
        ("require('cjson').encode({[1] = 1, a = 2})", "{\"a\":2,\"1\":1}"),
        ("require('cjson').encode({}), require('cjson').encode({{}})", "{}|[{}]"),
        ("require('cjson').encode(require('cjson').empty_array)", "[]"),
        ("local c = require('cjson') return c.encode(setmetatable({}, c.empty_array_mt))", "[]"),
        ("local c = require('cjson') return c.encode(setmetatable({a = 1}, c.empty_array_mt))", "{\"a\":1}"),
        ("local c = require('cjson') return c.encode(setmetatable({1, a = 1}, c.array_mt))", "[1]"),
        (
            "require('cjson').encode(0.1), require('cjson').encode(1e15), require('cjson').encode(1/3)",
            "0.1|1e+15|0.33333333333333",
        ),
        ("require('cjson').encode(123456789012), require('cjson').encode(-0.5)", "123456789012|-0.5"),
        ("require('cjson').encode(nil), require('cjson').encode(false)", "null|false"),
    ]);
}

#[test]
fn settings_belong_to_an_instance() {
    check(&[
        (
            "local c = require('cjson').new() c.encode_empty_table_as_object(false) return c.encode({}), require('cjson').encode({})",
            "[]|{}",
        ),
        (
            "local c = require('cjson').new() c.encode_escape_forward_slash(false) return c.encode('a/b')",
            "\"a/b\"",
        ),
        (
            "local c = require('cjson').new() c.encode_indent('  ') return c.encode({a = {1, {}}})",
            "{\n  \"a\": [\n    1,\n    {}\n  ]\n}",
        ),
        ("local c = require('cjson').new() c.encode_number_precision(3) return c.encode(1/3)", "0.333"),
        ("local c = require('cjson').new() return c.encode_number_precision(16), c.encode(0.1)", "16|0.1"),
        (
            "local c = require('cjson').new() return c.encode_sparse_array(true), c.encode({[1000] = 1})",
            "true|{\"1000\":1}",
        ),
        ("local c = require('cjson').new() c.encode_invalid_numbers('null') return c.encode(0/0)", "null"),
        (
            "local c = require('cjson').new() c.encode_invalid_numbers(true) return c.encode(1/0), c.encode(0/0)",
            "Infinity|NaN",
        ),
        (
            "local c = require('cjson').new() c.decode_array_with_array_mt(true) return c.encode(c.decode('[]'))",
            "[]",
        ),
        (
            "local c = require('cjson').new() c.encode_skip_unsupported_value_types(true) return c.encode({a = print, b = 1})",
            "{\"b\":1}",
        ),
        (
            "local c = require('cjson').new() c.decode_invalid_numbers(false) return pcall(c.decode, '[0x10]')",
            "false|Expected value but found invalid number at character 2",
        ),
        (
            "local c = require('cjson').new() return c.encode_max_depth(), c.encode_max_depth(2), pcall(c.encode, {{{}}})",
            "1000|2|false|Cannot serialise, excessive nesting (3)",
        ),
        (
            "pcall(require('cjson').encode_max_depth, 0)",
            "false|bad argument #1 to 'encode_max_depth' (expected integer between 1 and 2147483647)",
        ),
    ]);
}

#[test]
fn errors_are_raised_or_returned() {
    check(&[
        ("pcall(require('cjson').encode, print)", "false|Cannot serialise function: type not supported"),
        ("require('cjson.safe').encode(print)", "nil|Cannot serialise function: type not supported"),
        (
            "require('cjson.safe').encode({[true] = 1})",
            "nil|Cannot serialise boolean: table key must be a number or string",
        ),
        ("require('cjson.safe').encode(0/0)", "nil|Cannot serialise number: must not be NaN or Infinity"),
        (
            "require('cjson.safe').encode({[1] = 1, [100] = 1})",
            "nil|Cannot serialise table: excessively sparse array",
        ),
        (
            "pcall(require('cjson').decode, '{')",
            "false|Expected object key string but found T_END at character 2",
        ),
        ("require('cjson.safe').decode(nil)", "nil|bad argument #1 to 'decode' (string expected, got nil)"),
        ("require('cjson.safe').decode('')", "nil|Expected value but found T_END at character 1"),
        (
            "require('cjson.safe').decode('hello')",
            "nil|Expected value but found invalid token at character 1",
        ),
        (
            "require('cjson.safe').decode('Infrared')",
            "nil|Expected the end but found invalid token at character 4",
        ),
        ("require('cjson.safe').decode('+1')", "nil|Expected value but found invalid token at character 1"),
        (
            "require('cjson.safe').decode('[ 0.4eg10 ]')",
            "nil|Expected comma or array end but found invalid token at character 6",
        ),
        ("require('cjson.safe').decode('{\"a\" 1}')", "nil|Expected colon but found T_NUMBER at character 6"),
        (
            "require('cjson.safe').decode('[1 2]')",
            "nil|Expected comma or array end but found T_NUMBER at character 4",
        ),
        ("require('cjson.safe').decode('[1,]')", "nil|Expected value but found T_ARR_END at character 4"),
        (
            "require('cjson.safe').decode('{\"a\":1,}')",
            "nil|Expected object key string but found T_OBJ_END at character 8",
        ),
        ("require('cjson.safe').decode('1 1')", "nil|Expected the end but found T_NUMBER at character 3"),
        (
            "require('cjson.safe').decode('\"a')",
            "nil|Expected value but found unexpected end of string at character 3",
        ),
        (
            "require('cjson.safe').decode([[\"a\\x\"]])",
            "nil|Expected value but found invalid escape code at character 3",
        ),
        (
            "require('cjson.safe').decode([[\"\\ud800\"]])",
            "nil|Expected value but found invalid unicode escape code at character 2",
        ),
    ]);
}

#[test]
fn texts_decode_as_with_lua_cjson() {
    check(&[
        ("require('cjson').decode(' [1, {\"a\": [true, null]}] ')[2].a[1]", "true"),
        ("require('cjson').decode('null') == ngx.null, ngx.null == require('cjson').null", "true|true"),
        (
            "require('cjson').decode([[\"\\u00e4\\ud83d\\ude00\\n\\/\"]]) == '\\195\\164\\240\\159\\152\\128\\n/'",
            "true",
        ),
        (
            "require('cjson').decode('-1.5e3'), require('cjson').decode('0x10'), require('cjson').decode('-inf')",
            "-1500|16|-inf",
        ),
        (
            "require('cjson').decode('0x6.ffp1'), require('cjson').decode('[+Inf, +NaN]')[1], require('cjson').decode('1.e2')",
            "13.9921875|inf|100",
        ),
        ("require('cjson').decode('1234567890123456789')", "1.2345678901235e+18"),
        ("require('cjson').decode('12'), require('cjson').decode(12)", "12|12"),
        ("require('cjson').decode('{\"\":1,\"a\\\\u0000b\":2}')['a\\0b']", "2"),
    ]);
}

/// A JSON value that survives a round trip through Lua: no empty containers, no nulls beside arrays' ends.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(serde_json::Value::from),
        (-1_000_000_000_i64..1_000_000_000).prop_map(serde_json::Value::from),
        ".*".prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..6).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[a-z\"\\\\/\u{0}-\u{1f}é]{1,8}", inner, 1..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_value_survives_the_way_there_and_back(value in value()) {
        let lua = vm();
        lua.globals().set("text", value.to_string()).unwrap();
        let back: mlua::LuaString = lua.load("local c = require('cjson') return c.encode(c.decode(text))").eval().unwrap();
        let back: serde_json::Value = serde_json::from_slice(&back.as_bytes()).unwrap();
        prop_assert_eq!(back, value);
    }

    #[test]
    fn any_bytes_decode_or_give_a_message(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let lua = vm();
        lua.globals().set("text", lua.create_string(&bytes).unwrap()).unwrap();
        let shown = eval(&lua, "local v, err = require('cjson.safe').decode(text) return v ~= nil or type(err)");
        prop_assert!(shown == "true" || shown == "string", "{}", shown);
    }
}
