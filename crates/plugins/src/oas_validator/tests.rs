use super::*;
use plugin::testkit::{self, Bench};
use plugin::{CallErrorKind, Chain, Registry};

fn document() -> Value {
    json!({
        "openapi": "3.0.3",
        "servers": [{"url": "https://api.test/{v}", "variables": {"v": {"default": "v1"}}}],
        "paths": {
            "/pets": {
                "get": {"parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}},
                    {"name": "status", "in": "query", "required": true, "schema": {"type": "string", "enum": ["new", "sold"]}},
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}},
                    {"name": "ids", "in": "query", "explode": false, "schema": {"type": "array", "items": {"type": "integer"}}},
                    {"name": "filter", "in": "query", "style": "deepObject",
                     "schema": {"type": "object", "properties": {"age": {"type": "integer"}}, "additionalProperties": false}},
                    {"name": "any", "in": "query", "schema": {"anyOf": [{"type": "integer", "minimum": 10}, {"enum": ["x"]}]}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string", "pattern": "^[a-f]+$"}},
                    {"name": "sid", "in": "cookie", "schema": {"type": "integer"}}
                ]},
                "post": {"requestBody": {"$ref": "#/components/requestBodies/Pet"}}
            },
            "/pets/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
                "get": {}, "delete": {"parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}]}
            },
            "/pets/mine": {"get": {}},
            "/files/{name}.{ext}": {"get": {"parameters": [
                {"name": "ext", "in": "path", "required": true, "schema": {"enum": ["png"]}}
            ]}}
        },
        "components": {
            "requestBodies": {"Pet": {"required": true, "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
                "application/x-www-form-urlencoded": {"schema": {"$ref": "#/components/schemas/Pet"}},
                "text/*": {}
            }}},
            "schemas": {"Pet": {
                "type": "object", "required": ["name", "id"],
                "properties": {
                    "id": {"type": "integer", "readOnly": true},
                    "name": {"type": "string", "nullable": true},
                    "age": {"type": "integer"},
                    "children": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}
                }
            }}
        }
    })
}

fn chain(more: &Value) -> Chain {
    let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
    let mut config = json!({"spec": document().to_string(), "verbose_errors": true});
    for (name, value) in more.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    testkit::chain(&registry, &json!({ "oas-validator": config })).expect("valid")
}

fn status(chain: &Chain, request: &str, body: &str) -> u16 {
    let request = if body.is_empty() {
        request.to_owned()
    } else {
        format!("{request}\nContent-Length: {}", body.len())
    };
    testkit::access(chain, &mut Bench::new(&request).with_body(body).exchange())
}

#[test]
fn parameters_have_to_be_as_described() {
    let chain = chain(&json!({}));
    for (request, expected) in [
        ("GET /v1/pets?status=new", 0),
        ("GET /v1/pets?status=lost", 400),
        ("GET /v1/pets", 400),
        ("GET /pets?status=new", 400),
        ("GET /v1/pets/?status=new", 400),
        ("PATCH /v1/pets?status=new", 400),
        ("GET /v1/pets?status=new&limit=1", 0),
        ("GET /v1/pets?status=new&limit=0", 400),
        ("GET /v1/pets?status=new&limit=1.5", 400),
        ("GET /v1/pets?status=new&limit=x", 400),
        ("GET /v1/pets?status=new&tags=1&tags=2", 0),
        ("GET /v1/pets?status=new&tags=1&tags=x", 400),
        ("GET /v1/pets?status=new&tags=1&tags=2&tags=3", 400),
        ("GET /v1/pets?status=new&ids=1,2,3", 0),
        ("GET /v1/pets?status=new&ids=1,b", 400),
        ("GET /v1/pets?status=new&filter%5Bage%5D=3", 0),
        ("GET /v1/pets?status=new&filter[age]=x", 400),
        ("GET /v1/pets?status=new&filter[size]=3", 400),
        ("GET /v1/pets?status=new&any=12", 0),
        ("GET /v1/pets?status=new&any=x", 0),
        ("GET /v1/pets?status=new&any=2", 400),
        ("GET /v1/pets?status=new\nX-Trace: abc", 0),
        ("GET /v1/pets?status=new\nX-Trace: xyz", 400),
        ("GET /v1/pets?status=new\nCookie: sid=1", 0),
        ("GET /v1/pets?status=new\nCookie: sid=x", 400),
        ("GET /v1/pets/7", 0),
        ("GET /v1/pets/x", 400),
        ("DELETE /v1/pets/x", 0),
        ("GET /v1/pets/mine", 0),
        ("GET /v1/files/a.b.png", 0),
        ("GET /v1/files/a.gif", 400),
        ("GET /v1/files/.png", 400),
    ] {
        assert_eq!(status(&chain, request, ""), expected, "{request}");
    }
}

#[test]
fn bodies_have_to_be_as_described() {
    let chain = chain(&json!({}));
    for (kind, body, expected) in [
        ("application/json", r#"{"name": "a"}"#, 0),
        ("application/json; charset=utf-8", r#"{"name": null, "children": [{"name": "b"}]}"#, 0),
        ("application/json", r#"{"age": 1}"#, 400),
        ("application/json", r#"{"name": "a", "age": "1"}"#, 400),
        ("application/json", r#"{"name": "a", "children": [{"age": 1}]}"#, 400),
        ("application/json", "{", 400),
        ("application/json", "", 400),
        ("application/x-www-form-urlencoded", "name=a&age=3", 0),
        ("application/x-www-form-urlencoded", "name=a&age=x", 400),
        ("text/plain", "anything", 0),
        ("image/png", "anything", 400),
    ] {
        assert_eq!(
            status(&chain, &format!("POST /v1/pets\nContent-Type: {kind}"), body),
            expected,
            "{kind} {body}"
        );
    }
}

#[test]
fn what_is_skipped_is_not_checked_and_refusals_are_as_configured() {
    let json_post = "POST /v1/pets\nContent-Type: application/json";
    for (config, request, body, expected) in [
        (json!({"skip_request_body_validation": true}), json_post, "{}", 0),
        (json!({"skip_query_param_validation": true}), "GET /v1/pets", "", 0),
        (json!({"skip_path_params_validation": true}), "GET /v1/pets/x", "", 0),
        (json!({"skip_request_header_validation": true}), "GET /v1/pets?status=new\nX-Trace: xyz", "", 0),
        (json!({"reject_if_not_match": false}), json_post, "{}", 0),
        (json!({"rejection_status_code": 422}), json_post, "{}", 422),
        (json!({"max_req_body_size": 1}), json_post, "{}", 413),
    ] {
        assert_eq!(status(&chain(&config), request, body), expected, "{config}");
    }
    for (verbose, expected) in [
        (true, "failed to validate request. the path /v1/no is not described"),
        (false, "failed to validate request. "),
    ] {
        let chain = chain(&json!({"verbose_errors": verbose}));
        let reply = testkit::request(&chain, &mut Bench::new("GET /v1/no").exchange()).expect("refused");
        assert_eq!(reply.body, Some(format!("{{\"message\":\"{expected}\"}}\n").into_bytes()));
    }
}

#[test]
fn schemas_of_openapi_3_1_are_those_of_json_schema() {
    let schema = json!({
        "type": ["object", "null"],
        "properties": {
            "n": {"type": "number", "exclusiveMinimum": 0},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
            "own": {"$ref": "#/components/schemas/Text", "maxLength": 2}
        },
        "dependentRequired": {"n": ["pair"]}
    });
    let document = json!({
        "openapi": "3.1.0", "components": {"schemas": {"Text": {"type": "string"}}},
        "paths": {"/a": {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}}
    });
    let chain = chain(&json!({"spec": document.to_string()}));
    for (body, expected) in [
        (r#"{"n": 1, "pair": [1, "a"]}"#, 0),
        ("null", 0),
        (r#"{"n": 0, "pair": []}"#, 400),
        (r#"{"n": 1}"#, 400),
        (r#"{"pair": ["a"]}"#, 400),
        (r#"{"pair": [1, 2]}"#, 400),
        (r#"{"own": "abc"}"#, 400),
        (r#"{"own": 1}"#, 400),
    ] {
        assert_eq!(status(&chain, "POST /a\nContent-Type: application/json", body), expected, "{body}");
    }
}

#[test]
fn documents_are_fetched_and_stay_in_use() {
    let remote = || {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let config = json!({
            "spec_url": "http://spec.test/api.json", "spec_url_request_headers": {"Authorization": "x"}
        });
        testkit::chain(&registry, &json!({ "oas-validator": config })).expect("valid")
    };
    let chain = remote();
    let bench = Bench::new("GET /v1/pets/mine");
    bench.services.answer(200, &[], &document().to_string());
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
    assert!(bench.services.calls()[0].headers.contains("Authorization: x\r\n"));
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
    assert!(bench.services.calls().is_empty(), "kept");
    for (status, body) in [(404, document().to_string()), (200, "x".to_owned()), (200, "{}".to_owned())] {
        let bench = Bench::new("GET /v1/pets/mine");
        bench.services.answer(status, &[], &body);
        assert_eq!(testkit::access(&remote(), &mut bench.exchange()), 500, "{status} {body}");
    }
    let bench = Bench::new("GET /v1/pets/mine");
    bench.services.fail(CallErrorKind::Timeout);
    assert_eq!(testkit::access(&remote(), &mut bench.exchange()), 500);
}

#[test]
fn documents_that_are_none_are_refused_or_refuse() {
    let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
    for config in [
        json!({}),
        json!({"spec": "{"}),
        json!({"spec": "{}", "spec_url": "http://a/"}),
        json!({"spec_url": "ftp://a/"}),
        json!({"spec": "{}", "rejection_status_code": 399}),
    ] {
        assert!(testkit::chain(&registry, &json!({ "oas-validator": config })).is_err(), "{config}");
    }
    let mut endless = document();
    endless["components"]["schemas"]["Pet"] = json!({"$ref": "#/components/schemas/Pet"});
    let mut branching = document();
    let three = json!({"$ref": "#/components/schemas/Pet"});
    branching["components"]["schemas"]["Pet"] = json!({"allOf": [three, three, three]});
    let mut nowhere = document();
    nowhere["components"]["schemas"]["Pet"] = json!({"$ref": "other.json#/a"});
    for document in [json!({}), json!({"openapi": "2.0", "paths": {}}), branching, nowhere] {
        let chain = chain(&json!({"spec": document.to_string()}));
        assert_eq!(status(&chain, "GET /v1/pets/mine", ""), 500);
    }
    assert_eq!(status(&chain(&json!({"spec": endless.to_string()})), "GET /v1/pets/mine", ""), 0);
}
