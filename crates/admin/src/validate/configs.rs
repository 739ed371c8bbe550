//! `POST /configs/validate`: whether a whole configuration (collection name to list of resources) could be written,
//! without writing it. Whether what resources refer to exists is left out, as in APISIX: it may be in the same
//! configuration.
//!
//! JSON, or YAML with `Content-Type: application/yaml`. APISIX names one mistake a resource; beside it stand `errors`
//! with all of them, each with its place in the whole document. Collections that nobody knows, which APISIX passes
//! over, are named in the `Warning` header.

use crate::http::args::Args;
use crate::http::body::raw_body;
use crate::http::identity::text_of;
use crate::http::json::parse;
use crate::http::manner::Manner;
use crate::http::respond::Answer;
use crate::http::target::Target;
use crate::validate::resource::{Candidate, mistakes};
use crate::{Admin, AdminRequest, AdminResponse};
use model::Kind;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use store::file::MODIFIED_INDEX;

/// What follows a collection's name in the name of its version, a number.
const VERSION_SUFFIX: &str = "_conf_version";

/// Answers 200, or 400 with everything that is wrong.
pub(crate) async fn validate(admin: &Admin, request: &AdminRequest, args: &Args) -> Answer {
    let config = read(admin, request)?;
    let mut findings = Findings { strict: Manner::of(request, args).strict, ..Findings::default() };
    findings.look(admin, &config).await?;
    findings.answer()
}

/// Everything that is wrong with a whole configuration, each as the answer has it.
pub(crate) async fn errors(admin: &Admin, config: &Map<String, Value>) -> Result<Vec<Value>, AdminResponse> {
    let mut findings = Findings::default();
    findings.look(admin, config).await?;
    Ok(findings.errors)
}

/// The configuration of a request.
pub(crate) fn read(admin: &Admin, request: &AdminRequest) -> Result<Map<String, Value>, AdminResponse> {
    let refuse = |why: &str| AdminResponse::error(400, format!("invalid request body: {why}"));
    let body = raw_body(admin, request)?.ok_or_else(|| refuse("empty request body"))?;
    let config = if request.header("content-type").is_some_and(|kind| kind.starts_with("application/yaml")) {
        std::str::from_utf8(body)
            .ok()
            .and_then(|text| document::parse_yaml(text).ok())
            .map(|root| root.to_json())
            .filter(Value::is_object)
            .ok_or_else(|| refuse("invalid yaml request body"))?
    } else {
        parse(body).map_err(|error| refuse(&error.to_string()))?
    };
    match config {
        Value::Object(config) => Ok(config),
        _ => Err(refuse("an object is expected")),
    }
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    errors: Vec<Value>,
    unknown: Vec<String>,
    strict: bool,
}

impl Findings {
    async fn look(&mut self, admin: &Admin, config: &Map<String, Value>) -> Result<(), AdminResponse> {
        for (name, value) in config {
            if let Some(collection) = name.strip_suffix(VERSION_SUFFIX) {
                if !value.is_number() {
                    let error = format!("{name} must be a number, got {}", type_name(value));
                    self.errors.push(json!({ "resource_type": collection, "error": error }));
                }
                continue;
            }
            match Kind::from_collection(name).filter(|kind| kind.parent().is_none()) {
                Some(kind) => self.collection(admin, kind, value).await?,
                // The list of plugins to load is not the Admin API's to check.
                None if name == "plugins" => {}
                None => self.unknown.push(format!("/{name}")),
            }
        }
        Ok(())
    }

    async fn collection(&mut self, admin: &Admin, kind: Kind, items: &Value) -> Result<(), AdminResponse> {
        let collection = kind.collection();
        // Lua writes an empty array as an empty object.
        let items = match items {
            Value::Array(items) => items.as_slice(),
            Value::Object(fields) if fields.is_empty() => &[],
            _ => {
                self.errors.push(json!({ "resource_type": collection, "error": "an array is expected" }));
                return Ok(());
            }
        };
        let mut ids = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            self.item(admin, kind, (index, item)).await?;
            let (id, what) = match (item.get("id"), item.get("username")) {
                (Some(id), _) if kind == Kind::Consumer => (id, "credential id"),
                (Some(id), _) => (id, "id"),
                (None, Some(name)) if kind == Kind::Consumer => (name, "username"),
                _ => continue,
            };
            let id = text_of(id);
            if !ids.insert(id.clone()) {
                let error = format!("found duplicate {what} {id} in {collection}");
                let place = format!("/{collection}/{index}");
                let errors = json!([{ "path": place, "message": error }]);
                self.push(collection, (index, item), &error, &errors);
            }
        }
        Ok(())
    }

    async fn item(
        &mut self,
        admin: &Admin,
        kind: Kind,
        (index, item): (usize, &Value),
    ) -> Result<(), AdminResponse> {
        let collection = kind.collection();
        let place = format!("/{collection}/{index}");
        let Some(fields) = item.as_object() else {
            let error = "wrong type: expected object";
            self.push(collection, (index, item), error, &json!([{ "path": place, "message": error }]));
            return Ok(());
        };
        let id = fields.get("id").map(text_of);
        let id = id.as_deref();
        // Consumers and their credentials stand in one list.
        let credential = id.filter(|id| kind == Kind::Consumer && id.contains("/credentials/"));
        let kind = if credential.is_some() { Kind::Credential } else { kind };
        if kind == Kind::Secret && !id.is_some_and(|id| id.contains('/')) {
            let error = format!("invalid secret id: {}", id.unwrap_or("nil"));
            let errors = json!([{ "path": format!("{place}/id"), "message": error }]);
            self.push(collection, (index, item), &error, &errors);
            return Ok(());
        }
        // The revision that a document's item has in APISIX's standalone API is no part of the resource.
        let versioned = fields.get(MODIFIED_INDEX).is_some_and(|index| index.is_i64() || index.is_u64());
        let bare = versioned.then(|| {
            let mut bare = fields.clone();
            bare.shift_remove(MODIFIED_INDEX);
            bare
        });
        let fields = bare.as_ref().unwrap_or(fields);
        let target = Target { kind, parent: None, id, sub_path: &[] };
        let (mut found, unknown) = mistakes(admin, Candidate { target, fields, others: false }).await?;
        if self.strict {
            found.unknown(&unknown);
        }
        self.unknown.extend(unknown.iter().map(|field| format!("{place}{field}")));
        if found.any() {
            self.push(collection, (index, item), found.line(), &found.listed(&place).into());
        }
        Ok(())
    }

    fn push(&mut self, collection: &str, (index, item): (usize, &Value), error: &str, errors: &Value) {
        let id = item.get("id").or_else(|| item.get("username")).cloned().unwrap_or_else(|| json!(""));
        self.errors.push(json!({
            "resource_type": collection, "resource_id": id, "index": index, "error": error, "errors": errors,
        }));
    }

    fn answer(mut self) -> Answer {
        if self.strict {
            let collections = self.unknown.iter().filter(|field| !field[1..].contains('/'));
            let errors: Vec<_> = collections
                .map(|name| {
                    json!({ "resource_type": name[1..], "error": format!("Unsupported resource type: {}", &name[1..]) })
                })
                .collect();
            self.errors.extend(errors);
        }
        if self.errors.is_empty() {
            return Ok(AdminResponse::json(200, &json!({})).warned(&self.unknown));
        }
        let body = json!({ "error_msg": "Configuration validation failed", "errors": self.errors });
        Err(AdminResponse::json(400, &body))
    }
}

/// As Lua calls it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "userdata",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "table",
    }
}
