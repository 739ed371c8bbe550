#![expect(clippy::needless_pass_by_value, reason = "tables of `json!` read better by value")]

use super::*;
use serde_json::json;

fn check(schema: Value, value: Value) -> Report {
    Validator::compile(&schema).unwrap().check(&value)
}

#[test]
fn lines_are_worded_as_apisix_words_them() {
    let named = |schema: Value| json!({ "type": "object", "properties": { "p": schema } });
    for (schema, value, line) in [
        (json!({"type": "string"}), json!(1), "wrong type: expected string, got number"),
        (json!({"type": "string"}), json!(null), "wrong type: expected string, got userdata"),
        (json!({"type": "array"}), json!({"a": 1}), "wrong type: expected array, got table"),
        (json!({"type": "integer"}), json!(1.5), "wrong type: expected integer, got number"),
        (
            json!({"type": ["string", "number"]}),
            json!(true),
            "wrong type: expected one of string, number, got boolean",
        ),
        (json!(false), json!(1), "expect false always"),
        (
            named(json!({"type": "boolean"})),
            json!({"p": 0}),
            "property \"p\" validation failed: wrong type: expected boolean, got number",
        ),
        (json!({"required": ["a"]}), json!({}), "property \"a\" is required"),
        (json!({"required": []}), json!({"a": 1}), "the input data should be an empty table"),
        (json!({"additionalProperties": false}), json!({"a": 1}), "additional properties forbidden, found a"),
        (
            json!({"additionalProperties": {"pattern": "^\\$.*"}}),
            json!({"X": "department"}),
            "failed to validate additional property X: failed to match pattern \"^\\\\$.*\" with \"department\"",
        ),
        (
            json!({"patternProperties": {".*": {"type": "string"}}}),
            json!({"env": {"a": 1}}),
            "failed to validate env (matching \".*\"): wrong type: expected string, got table",
        ),
        (json!({"minProperties": 1}), json!({}), "expect object to have at least 1 properties"),
        (json!({"maxProperties": 1}), json!({"a": 1, "b": 2}), "expect object to have at most 1 properties"),
        (
            json!({"dependencies": {"limit": ["time_window"]}}),
            json!({"limit": 1}),
            "property \"time_window\" is required when \"limit\" is set",
        ),
        (
            json!({"dependencies": {"cert": {"required": ["key"]}}}),
            json!({"cert": 1}),
            "failed to validate dependent schema for \"cert\": property \"key\" is required",
        ),
        (json!({"minItems": 1}), json!([]), "expect array to have at least 1 items"),
        // An empty table is an array even after it became an object for the sake of a default.
        (
            json!({"minItems": 1, "properties": {"a": {"default": 1}}}),
            json!({}),
            "expect array to have at least 1 items",
        ),
        (json!({"maxItems": 1}), json!([1, 2]), "expect array to have at most 1 items"),
        (
            json!({"uniqueItems": true}),
            json!([2, {"a": 1}, {"a": 1.0}]),
            "expected unique items but items 2 and 3 are equal",
        ),
        (
            json!({"items": {"maximum": 599}}),
            json!([1, 600]),
            "failed to validate item 2: expected 600 to be at most 599",
        ),
        (
            json!({"items": [{}, {"type": "string"}]}),
            json!([1, 2]),
            "failed to validate item 2: wrong type: expected string, got number",
        ),
        (
            json!({"items": [{}], "additionalItems": {"type": "string"}}),
            json!([1, 2]),
            "failed to validate additional item 2: wrong type: expected string, got number",
        ),
        (json!({"minLength": 1}), json!(""), "string too short, expected at least 1, got 0"),
        (json!({"maxLength": 2}), json!("äöü"), "string too long, expected at most 2, got 3"),
        (
            json!({"pattern": "^[a-z]+$"}),
            json!("$#^@\"abc"),
            "failed to match pattern \"^[a-z]+$\" with \"$#^@\\\"abc\"",
        ),
        (json!({"pattern": "^(?!x)a%"}), json!("xa"), "failed to match pattern \"^(?!x)a%\" with \"xa\""),
        (json!({"minimum": 0.00001}), json!(-0.1), "expected -0.1 to be at least 1e-05"),
        (json!({"exclusiveMinimum": 0}), json!(0), "expected 0 to be greater than 0"),
        (json!({"exclusiveMaximum": 1}), json!(1), "expected 1 to be smaller than 1"),
        (json!({"multipleOf": 0.01}), json!(1.135), "expected 1.135 to be a multiple of 0.01"),
        (json!({"enum": ["a", 1]}), json!("b"), "matches none of the enum values"),
        (json!({"const": {"a": []}}), json!({"a": [1]}), "failed to check const value"),
        (
            json!({"allOf": [{}, {"required": ["a"]}]}),
            json!({}),
            "allOf 2 failed: property \"a\" is required",
        ),
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["b/c", "d"]}]}),
            json!({}),
            "object matches none of the required: [\"a\"] or [\"b\\/c\",\"d\"]",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!(true),
            "object matches none of the required",
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            json!(true),
            "value should match only one schema, but matches none",
        ),
        (
            json!({"oneOf": [{}, false, {}]}),
            json!(1),
            "value should match only one schema, but matches both schemas 1 and 3",
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
            json!({"a": 1}),
            "then clause did not match",
        ),
        (
            json!({"if": {"required": ["a"]}, "else": {"required": ["b"]}}),
            json!({"c": 1}),
            "else clause did not match",
        ),
        (json!({"not": {"required": ["a"]}}), json!({"a": 1}), "value wasn't supposed to match schema"),
        (json!({"format": "ipv4"}), json!("1.2.3"), "expect valid ipv4 format but got: 1.2.3"),
        (json!({"format": "date"}), json!("2026-13-01"), "expect valid date format but got: 2026-13-01"),
        (json!({"contains": {"const": "a"}}), json!([]), "check contains: empty array is invalid"),
        (json!({"contains": {"const": "a"}}), json!(["b"]), "failed to check contains"),
    ] {
        assert_eq!(check(schema.clone(), value.clone()).first.as_deref(), Some(line), "{schema} {value}");
    }
}

#[test]
fn what_lua_takes_is_taken() {
    for (schema, value) in [
        (json!(true), json!(null)),
        (json!({"type": "integer"}), json!(1.0)),
        (json!({"type": "array"}), json!({})),
        (json!({"type": "object"}), json!([])),
        (json!({"type": "null"}), json!(null)),
        (json!({"required": ["a"], "properties": {"b": {"type": "string"}}}), json!([1])),
        (json!({"multipleOf": 0.01}), json!(1.13)),
        (json!({"pattern": r"^\S+$"}), json!("größe")),
        (json!({"pattern": "^a$"}), json!("a\n")),
        (json!({"format": "uint32", "type": ["integer", "null"]}), json!(-1)),
        (json!({"items": [{"type": "string"}], "additionalItems": false}), json!(["a"])),
        (json!({"type": "string", "minLength": 100}), json!("$secret://vault/1/a")),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}), json!("a")),
    ] {
        assert_eq!(check(schema.clone(), value.clone()), Report::default(), "{schema} {value}");
    }
    assert!(!check(json!({"type": "integer"}), json!("$secret://vault/1/a")).is_ok());
}

#[test]
fn every_mistake_is_named_by_its_path() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a/b": { "type": "array", "items": { "type": "string" } },
            "n": { "minimum": 5, "multipleOf": 2 },
            "mode": { "enum": ["x"] },
            "id": { "anyOf": [{ "type": "string", "maxLength": 1 }, { "type": "integer" }] },
        },
        "required": ["z"],
        "if": { "required": ["n"] },
        "then": { "properties": { "mode": { "minLength": 2 } } },
        "additionalProperties": false,
    });
    let report = check(schema, json!({ "a/b": ["x", 1, 2], "n": 3, "mode": "y", "id": "xx", "~": 0 }));
    let errors: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "/a~1b/1: wrong type: expected string, got number",
            "/a~1b/2: wrong type: expected string, got number",
            "/n: expected 3 to be at least 5",
            "/n: expected 3 to be a multiple of 2",
            "/mode: matches none of the enum values",
            "/id: string too long, expected at most 1, got 2",
            "property \"z\" is required",
            "/~0: additional properties forbidden, found ~",
            "/mode: string too short, expected at least 2, got 1",
        ]
    );
    let first = "property \"a/b\" validation failed: failed to validate item 2: wrong type: expected string, got number";
    assert_eq!(report.first.as_deref(), Some(first));
}

#[test]
fn alternatives_are_named_by_the_one_that_was_meant_or_by_all() {
    let schema = json!({ "oneOf": [
        { "properties": { "count": { "type": "integer" } }, "required": ["count"] },
        { "required": ["rules"] },
    ] });
    let line = "value should match only one schema, but matches none";
    for (value, expected) in [
        (json!({ "count": "5" }), "/count: wrong type: expected integer, got string"),
        (json!({}), "one of these properties is required: \"count\", \"rules\""),
    ] {
        let report = check(schema.clone(), value.clone());
        let errors: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, [expected], "{value}");
        assert_eq!(report.first.as_deref(), Some(line), "APISIX's words stay");
    }
    let types = check(json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }), json!([]));
    assert_eq!(
        types.errors[0].message,
        "none of the alternatives fits: wrong type: expected string, got table; or wrong type: expected integer, got \
         table"
    );
}

#[test]
fn defaults_reach_as_far_as_apisix_fills_them_in() {
    let policy = json!({ "type": "string", "default": "local" });
    let redis = json!({ "properties": { "port": { "default": 6379 } }, "required": ["host"] });
    for (schema, value, expected) in [
        (
            json!({"properties": {"a": {"default": false}, "b": {"default": null}}}),
            json!({}),
            json!({"a": false}),
        ),
        (json!({"properties": {"a": {"default": 1}}}), json!([]), json!({"a": 1})),
        (json!({"properties": {"a": {"default": 1}}}), json!([2]), json!([2])),
        // Absent objects are not made up for the sake of their fields.
        (json!({"properties": {"a": {"properties": {"b": {"default": 1}}}}}), json!({}), json!({})),
        (
            json!({"properties": {"a": {"properties": {"b": {"default": 1}}}}}),
            json!({"a": {}}),
            json!({"a": {"b": 1}}),
        ),
        (
            json!({"items": {"properties": {"b": {"default": 1}}}}),
            json!([{}, {"b": 2}]),
            json!([{"b": 1}, {"b": 2}]),
        ),
        // The condition sees the default, and the chosen clause fills in its own.
        (
            json!({"properties": {"policy": policy},
                "if": {"properties": {"policy": {"enum": ["redis"]}}}, "then": redis, "else": {"properties": {"l": {"default": 1}}}}),
            json!({}),
            json!({"policy": "local", "l": 1}),
        ),
        (
            json!({"oneOf": [redis, {"properties": {"path": {"default": "/"}}}]}),
            json!({}),
            json!({"port": 6379, "path": "/"}),
        ),
        // anyOf stops at the first branch that matches.
        (json!({"anyOf": [{}, {"properties": {"b": {"default": 1}}}]}), json!({}), json!({})),
        (json!({"type": "array"}), json!({}), json!([])),
        (json!({"properties": {"a": {"type": "integer"}}}), json!({"a": 3.0}), json!({"a": 3})),
    ] {
        let mut filled = value;
        Validator::compile(&schema).unwrap().apply_defaults(&mut filled);
        assert_eq!(filled, expected, "{schema}");
    }
}

#[test]
fn unknown_fields_are_those_named_nowhere() {
    let schema = json!({
        "properties": {
            "a": { "type": "object" },
            "b": { "items": { "properties": { "c": {} } } },
            "d": { "properties": { "e": {} }, "additionalProperties": true },
        },
        "oneOf": [{ "properties": { "f": {} } }, { "required": ["g"] }],
        "dependencies": { "a": { "properties": { "h": {} } } },
        "patternProperties": { "^x-": {} },
    });
    let value = json!({ "a": { "any": 1 }, "b": [{ "c": 1 }, { "c/c": 1 }], "d": { "z": 1 }, "f": 1, "g": 1, "h": 1, "x-y": 1 });
    let validator = Validator::compile(&schema).unwrap();
    assert_eq!(validator.unknown_fields(&value), ["/b/1/c~1c", "/g"]);
    let strict = Validator::compile(&json!({ "properties": {}, "additionalProperties": false })).unwrap();
    assert!(strict.unknown_fields(&value).is_empty());
}

#[test]
fn unusable_schemas_are_refused_with_their_place() {
    for (schema, place) in [
        (json!(1), ""),
        (json!({"properties": {"a": {"type": "str"}}}), "/properties/a/type"),
        (json!({"items": [{"pattern": "("}]}), "/items/0/pattern"),
        (json!({"minLength": -1}), "/minLength"),
        (json!({"required": "a"}), "/required"),
        (json!({"multipleOf": 0}), "/multipleOf"),
        (json!({"$ref": "http://example.com/"}), "/$ref"),
    ] {
        assert_eq!(Validator::compile(&schema).unwrap_err().path, place, "{schema}");
    }
    let endless = json!({ "properties": { "a": { "$ref": "#" } } });
    assert!(Validator::compile(&endless).unwrap_err().message.contains("deeper"));
    let branching = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }, { "$ref": "#" }] });
    assert!(Validator::compile(&branching).is_err());
}

#[test]
fn deep_values_and_runaway_patterns_end() {
    let deep = (0..VALUE_DEPTH).fold(json!(1), |inner, _| json!([inner]));
    assert!(check(json!({"uniqueItems": true}), deep.clone()).is_ok());
    let deeper = json!({ "a": deep });
    let validator = Validator::compile(&json!({})).unwrap();
    assert_eq!(validator.check(&deeper).first.as_deref(), Some("nests deeper than 128 levels"));
    assert!(validator.unknown_fields(&deeper).is_empty());
    let mut same = deeper.clone();
    validator.apply_defaults(&mut same);
    assert_eq!(same, deeper);
    let runaway = check(json!({"pattern": "^(a+)+$"}), json!(format!("{}b", "a".repeat(100))));
    assert!(runaway.first.unwrap().starts_with("failed to match pattern"));
    let hidden = check(json!({"not": {"pattern": "^(a+)+$"}}), json!(format!("{}b", "a".repeat(100))));
    assert!(!hidden.is_ok(), "what a pattern can't decide is not valid");
    let wrong = check(json!({"items": false}), json!(vec![1; MISTAKES * 2]));
    assert_eq!(wrong.errors.len(), MISTAKES);
}

/// Each string alone stays below the limit of steps; together they would take minutes.
#[test]
fn the_steps_of_all_patterns_of_a_check_are_bounded() {
    let slow = format!("{}b", "a".repeat(17));
    let schema = json!({ "items": { "pattern": "^(a+)+b$|^(a+)+$" } });
    let fits = check(schema.clone(), json!([format!("{}b", "a".repeat(3))]));
    assert!(fits.is_ok());
    let schema = json!({ "items": { "pattern": "^(a+)+$" } });
    let report = check(schema, json!(vec![slow; 10_000]));
    assert!(report.first.is_some());
}
