use super::answer::Style;
use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plugin::testkit::{self, Bench};
use plugin::{Chain, Ingredients, Parent, Registry};
use prost_reflect::prost::Message;
use protos::Definitions;
use serde_json::{Map, json};
use std::sync::Arc;

const TYPES: &str = r#"
    syntax = "proto3";
    package t;
    message Inner { string name = 1; repeated string tags = 2; }
    enum Colour { NONE = 0; RED = 1; }
    message All {
        string text = 1; int32 small = 2; int64 large = 3; uint64 huge = 4; double real = 5; float single = 6;
        bool truth = 7; bytes raw = 8; Colour colour = 9; Inner inner = 10; repeated Inner inners = 11;
        repeated int32 numbers = 12; map<int32, Inner> members = 13; optional string maybe = 14;
        oneof choice { string left = 15; string right = 16; }
    }
    service S { rpc R (All) returns (All); }
"#;

fn definitions() -> Arc<Definitions> {
    Arc::new(Definitions::compile(TYPES).expect("valid"))
}

fn all() -> MessageDescriptor {
    definitions().message("t.All").expect("defined")
}

fn chain(config: &Value, definitions: Option<&Arc<Definitions>>) -> Chain {
    let registry = Registry::new([def()], Map::new()).expect("a valid schema");
    let parent = Parent { resource_key: "/routes/1", config_version: 1 };
    let ingredients = Ingredients { metadata: None, definitions };
    Chain::new(vec![registry.compile_one("grpc-transcode", config, ingredients, parent).expect("valid")])
}

fn config() -> Value {
    json!({"proto_id": 1, "service": "t.S", "method": "R", "deadline": 100.5})
}

/// What a message of these fields says, shown with `options` where they are.
fn there_and_back(fields: &Value, options: &[&str]) -> Result<Value, String> {
    let fields = fields.as_object().expect("an object");
    let framed = question::framed(&question::message(&all(), fields)?);
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    answer::read(&all(), Style::of(&options), &framed).ok_or_else(|| "unreadable".to_owned())
}

#[test]
fn fields_of_every_type_come_back() {
    let none = ["no_default_values"];
    for (given, expected) in [
        (json!({"text": "a", "unknown": 1, "small": null}), json!({"text": "a"})),
        (json!({"text": 12, "small": "7", "truth": ""}), json!({"text": "12", "small": 7, "truth": true})),
        (json!({"large": -9_007_199_254_740_993_i64}), json!({"large": -9_007_199_254_740_993_i64})),
        (json!({"large": "#-0x1F", "huge": "18446744073709551615"}), json!({"large": -31, "huge": u64::MAX})),
        (json!({"large": "-#12", "small": 12.0}), json!({"small": 12, "large": -12})),
        (json!({"real": "1.5", "single": 0.1}), json!({"real": 1.5, "single": 0.1})),
        (json!({"raw": "é", "colour": "RED"}), json!({"raw": "é", "colour": "RED"})),
        (json!({"colour": "1"}), json!({"colour": "RED"})),
        (json!({"colour": 5}), json!({"colour": 5})),
        (json!({"inner": {"name": "x"}, "inners": [{}]}), json!({"inner": {"name": "x"}, "inners": [{}]})),
        (json!({"numbers": ["1", 2]}), json!({"numbers": [1, 2]})),
        (json!({"numbers": "1"}), json!({"numbers": [1]})),
        (
            json!({"members": {"2": {}, "1": {"name": "b"}}}),
            json!({"members": {"1": {"name": "b"}, "2": {}}}),
        ),
        (json!({"maybe": "", "right": ""}), json!({"maybe": "", "right": ""})),
    ] {
        assert_eq!(there_and_back(&given, &none).as_ref(), Ok(&expected), "{given}");
    }
}

#[test]
fn values_of_other_types_are_refused() {
    for (given, expected) in [
        (json!({"text": {"name": "x"}}), "text: is no string"),
        (json!({"small": 2_147_483_648_u64}), "small: is no integer of 32 bits"),
        (json!({"small": 1.5}), "small: is no integer of 32 bits"),
        (json!({"large": "#a"}), "large: is no integer of 64 bits"),
        (json!({"large": "+1a"}), "large: is no integer of 64 bits"),
        (json!({"large": "0xFFFFFFFFFFFFFFFF"}), "large: is no integer of 64 bits"),
        (json!({"huge": -1}), "huge: is no unsigned integer of 64 bits"),
        (json!({"real": "x"}), "real: is no number"),
        (json!({"truth": "maybe"}), "truth: is no boolean"),
        (json!({"colour": "BLUE"}), "colour: is no t.Colour"),
        (json!({"inner": {"name": []}}), "inner: name: is no string"),
        (json!({"members": {"a": {}}}), "members: is no integer of 32 bits"),
        (json!({"members": {"1": 1}}), "members: 1: is no object"),
        (json!({"members": []}), "members: is no object"),
    ] {
        assert_eq!(there_and_back(&given, &[]), Err(expected.to_owned()), "{given}");
    }
}

#[test]
fn options_say_how_values_are_shown() {
    let empty = json!({
        "text": "", "small": 0, "large": 0, "huge": 0, "real": 0.0, "single": 0.0, "truth": false, "raw": "",
        "colour": "NONE", "inners": [], "numbers": [], "members": {}
    });
    let lists = json!({"inners": [], "numbers": [], "members": {}});
    let wide = json!({"large": -4_294_967_296_i64, "huge": 4_294_967_296_u64, "small": -1});
    for (given, option, expected) in [
        (json!({}), "auto_default_values", empty.clone()),
        (json!({}), "use_default_values", empty),
        (json!({}), "use_default_metatable", lists),
        (json!({}), "no_default_values", json!({})),
    ] {
        assert_eq!(there_and_back(&given, &[option]), Ok(expected), "{option}");
    }
    for (option, expected) in [
        ("int64_as_number", wide.clone()),
        ("int64_as_string", json!({"small": -1, "large": "#-4294967296", "huge": "#4294967296"})),
        ("int64_as_hexstring", json!({"small": -1, "large": "#-0x100000000", "huge": "#0x100000000"})),
    ] {
        assert_eq!(there_and_back(&wide, &["no_default_values", option]), Ok(expected), "{option}");
    }
    let enums = there_and_back(&json!({"colour": "RED"}), &["no_default_values", "enum_as_value"]);
    assert_eq!(enums, Ok(json!({"colour": 1})));
}

#[test]
fn in_proto2_only_defaults_of_ones_own_are_shown() {
    let text =
        "message M { optional int32 a = 1 [default = 3]; optional int32 b = 2; repeated int32 c = 3; }";
    let message = Definitions::compile(text).unwrap().message("M").unwrap();
    for (option, expected) in [("auto_default_values", json!({})), ("use_default_values", json!({"a": 3}))] {
        let style = Style::of(&[option.to_owned()]);
        assert_eq!(answer::decode(&message, style, b""), Some(expected), "{option}");
    }
}

#[test]
fn requests_become_calls() {
    let definitions = definitions();
    let chain = chain(&config(), Some(&definitions));
    let form = "Content-Type: application/x-www-form-urlencoded";
    let json = "Content-Type: application/json; charset=utf-8";
    for (head, body, expected) in [
        ("GET /x?text=a+b&numbers=1&numbers=2", "", Ok(json!({"text": "a b", "numbers": [1, 2]}))),
        (&format!("POST /x?text=q\n{form}"), "text=b", Ok(json!({"text": "b"}))),
        (&format!("POST /x?text=q\n{json}"), r#"{"text": "j"}"#, Ok(json!({"text": "j"}))),
        (&format!("PUT /x?text=q\n{json}"), r#"{"text": "j"}"#, Ok(json!({"text": "j"}))),
        (&format!("PUT /x?text=q\n{form}"), "text=b", Ok(json!({"text": "q"}))),
        (&format!("POST /x?text=q\n{json}"), "", Ok(json!({}))),
        (&format!("POST /x\n{json}"), "[]", Err("the body is no JSON object")),
        (&format!("POST /x\n{json}"), r#"{"small": "x"}"#, Err("small: is no integer")),
    ] {
        let bench = Bench::new(&format!("{head}\nContent-Length: {}", body.len())).with_body(body);
        let mut exchange = bench.exchange();
        let refused = testkit::request(&chain, &mut exchange);
        let Ok(expected) = expected else {
            let refused = refused.expect("a refusal");
            let text = String::from_utf8(refused.body.expect("a body")).unwrap();
            assert!(refused.status == 400 && text.contains(expected.unwrap_err()), "{head} {body}: {text}");
            continue;
        };
        assert_eq!(refused, None, "{head} {body}");
        let edits = exchange.request.edits.expect("edits");
        assert_eq!((edits.method.as_deref(), edits.target.as_deref()), (Some("POST"), Some(&b"/t.S/R"[..])));
        assert_eq!(
            testkit::lines(&edits.headers),
            "Content-Type: application/grpc\r\ngrpc-timeout: 101m\r\n"
        );
        let style = Style::of(&["no_default_values".to_owned()]);
        let sent = answer::read(&all(), style, &edits.body.expect("a body"));
        assert_eq!(sent, Some(expected), "{head} {body}");
    }
}

#[test]
fn a_method_that_is_not_there_is_unavailable() {
    let definitions = definitions();
    let other = json!({"proto_id": "1", "service": "t.S", "method": "Q"});
    for (config, definitions) in [(config(), None), (other, Some(&definitions))] {
        let bench = Bench::new("GET /");
        let reply = testkit::request(&chain(&config, definitions), &mut bench.exchange());
        assert_eq!(reply.map(|reply| reply.status), Some(503), "{config}");
    }
}

#[test]
fn bodies_that_are_no_answers_say_so() {
    let style = Style::of(&[]);
    let framed = question::framed(&question::message(&all(), &Map::new()).unwrap());
    assert!(answer::read(&all(), style, &framed).is_some());
    for framed in [&b""[..], b"\0\0\0\0", b"\x01\0\0\0\0", b"\0\0\0\0\x02\x0a", b"\0\0\0\0\x02\x0a\x05"] {
        assert_eq!(
            json_of(&all(), style, framed),
            b"failed to decode response data by protobuf",
            "{framed:?}"
        );
    }
}

#[test]
fn statuses_and_details_of_failed_calls_are_shown() {
    for (status, http) in [("1", 499), ("5", 404), ("14", 503), ("16", 401), ("17", 599), ("x", 599)] {
        assert_eq!(status::to_http(status.as_bytes()), http, "{status}");
    }
    let definitions = definitions();
    let inner = question::message(
        &definitions.message("t.Inner").unwrap(),
        json!({"name": "x"}).as_object().unwrap(),
    );
    let inner = inner.unwrap().encode_to_vec();
    // code 14, message "out", one detail: google.rpc.Status by hand.
    let any = [&[0x0a, 1, b'u', 0x12, inner.len() as u8], inner.as_slice()].concat();
    let status = [&[8, 14, 0x12, 3, b'o', b'u', b't', 0x1a, any.len() as u8], any.as_slice()].concat();
    let field = STANDARD.encode(status);
    let broken = "failed to call pb.decode to decode details in grpc-status-details-bin";
    for (name, field, expected) in [
        (
            None,
            &*field,
            r#"{"error":{"code":14,"message":"out","details":[{"type_url":"u","value":"\n\u0001x"}]}}"#,
        ),
        (
            Some("t.Inner"),
            &*field,
            r#"{"error":{"code":14,"message":"out","details":[{"name":"x","tags":[]}]}}"#,
        ),
        (
            Some(".t.Inner"),
            &*field,
            r#"{"error":{"code":14,"message":"out","details":[{"name":"x","tags":[]}]}}"#,
        ),
        (Some("t.Other"), &*field, broken),
        (None, "?", "grpc-status-details-bin is not base64 format"),
        (None, "BQ", "failed to call pb.decode to decode grpc-status-details-bin"),
    ] {
        let shown = status::Details::of(name, Some(&definitions)).shown(field.as_bytes(), Style::of(&[]));
        assert_eq!(String::from_utf8(shown).unwrap(), expected, "{name:?} {field}");
    }
}
