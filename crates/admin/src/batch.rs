//! `POST /configs/validate`: whether a whole configuration (collection name to list of resources) could be written,
//! without writing it. Whether what resources refer to exists is left out, as in APISIX: it may be in the same
//! configuration.
//!
//! JSON alone; collections that this gateway doesn't have are named as mistakes rather than passed over.

use crate::checks::{Candidate, mistakes};
use crate::dispatch::raw_body;
use crate::identity::text_of;
use crate::respond::Answer;
use crate::{Admin, AdminRequest, AdminResponse};
use model::Kind;
use serde_json::{Value, json};
use std::collections::HashSet;

/// What follows a collection's name in the name of its version, a number.
const VERSION_SUFFIX: &str = "_conf_version";

pub(crate) async fn validate(admin: &Admin, request: &AdminRequest) -> Answer {
    let refuse = |why: &str| AdminResponse::error(400, format!("invalid request body: {why}"));
    let body = raw_body(admin, request)?.ok_or_else(|| refuse("empty request body"))?;
    if request.header("content-type").is_some_and(|kind| kind.starts_with("application/yaml")) {
        return Err(refuse("YAML is not read yet, send JSON"));
    }
    let config: Value = serde_json::from_slice(body).map_err(|error| refuse(&error.to_string()))?;
    let Value::Object(config) = config else { return Err(refuse("an object is expected")) };
    let mut errors = Vec::new();
    for (name, value) in &config {
        if let Some(collection) = name.strip_suffix(VERSION_SUFFIX) {
            if !value.is_number() {
                errors.push(
                    json!({ "resource_type": collection, "error": format!("{name} must be a number") }),
                );
            }
            continue;
        }
        let Some(kind) = Kind::from_collection(name) else {
            let error = format!("Unsupported resource type: {name}");
            errors.push(json!({ "resource_type": name, "error": error }));
            continue;
        };
        check_collection(admin, kind, value, &mut errors).await?;
    }
    if errors.is_empty() {
        return Ok(AdminResponse::json(200, &json!({})));
    }
    let body = json!({ "error_msg": "Configuration validation failed", "errors": errors });
    Err(AdminResponse::json(400, &body))
}

async fn check_collection(
    admin: &Admin,
    kind: Kind,
    items: &Value,
    errors: &mut Vec<Value>,
) -> Result<(), AdminResponse> {
    let collection = kind.collection();
    let Some(items) = items.as_array() else {
        errors.push(json!({ "resource_type": collection, "error": "an array is expected" }));
        return Ok(());
    };
    let mut ids = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let id = item.get("id").map(text_of);
        let mut report = |error: &str| {
            let id = id.as_deref().unwrap_or_default();
            errors.push(json!({
                "resource_type": collection, "resource_id": id, "index": index, "error": error,
            }));
        };
        match item.as_object() {
            Some(fields) => {
                let candidate = Candidate { kind, id: id.as_deref(), fields, references: false };
                let (found, _) = mistakes(admin, candidate).await?;
                if found.any() {
                    report(found.line());
                }
            }
            None => report("wrong type: expected object"),
        }
        if let Some(id) = &id
            && !ids.insert(id.clone())
        {
            report(&format!("found duplicate id {id} in {collection}"));
        }
    }
    Ok(())
}
