//! Schemas of secrets, one for each manager.

use super::Validator;
use crate::resource::SECRET_MANAGERS;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// What secrets of any manager are: objects. What the manager wants is in [`secret_of`].
pub(super) fn secret() -> Value {
    json!({ "type": "object" })
}

/// The schema of secrets of one manager; `None` for one that there isn't.
#[must_use]
pub fn secret_of(manager: &str) -> Option<Value> {
    match manager {
        "vault" => Some(vault()),
        "aws" => Some(aws()),
        "gcp" => Some(gcp()),
        _ => None,
    }
}

/// The compiled form of [`secret_of`].
pub(super) fn validator_of(manager: &str) -> Option<&'static Validator> {
    static ALL: LazyLock<Vec<(&str, Validator)>> = LazyLock::new(|| {
        let compile = |name| Some((name, Validator::compile(&secret_of(name)?).ok()?));
        SECRET_MANAGERS.into_iter().filter_map(compile).collect()
    });
    ALL.iter().find(|(name, _)| *name == manager).map(|(_, validator)| validator)
}

fn uri() -> Value {
    json!({ "type": "string", "pattern": r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?" })
}

fn vault() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": { "uri": uri(), "prefix": text, "token": text, "namespace": text },
        "required": ["uri", "prefix", "token"],
    })
}

fn aws() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "access_key_id": text,
            "secret_access_key": text,
            "session_token": text,
            "region": { "type": "string", "default": "us-east-1" },
            "endpoint_url": uri(),
        },
        "required": ["access_key_id", "secret_access_key"],
    })
}

fn gcp() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "auth_config": {
                "type": "object",
                "properties": {
                    "client_email": text,
                    "private_key": text,
                    "project_id": text,
                    "token_uri": { "type": "string", "default": "https://oauth2.googleapis.com/token" },
                    "scope": {
                        "type": "array",
                        "items": text,
                        "default": ["https://www.googleapis.com/auth/cloud-platform"],
                    },
                    "entries_uri": { "type": "string", "default": "https://secretmanager.googleapis.com/v1" },
                },
                "required": ["client_email", "private_key", "project_id"],
            },
            "ssl_verify": { "type": "boolean", "default": true },
            "auth_file": text,
        },
        "oneOf": [{ "required": ["auth_config"] }, { "required": ["auth_file"] }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manager_has_a_schema_that_compiles() {
        for manager in SECRET_MANAGERS {
            assert!(validator_of(manager).is_some(), "{manager}");
        }
        assert!(validator_of("azure").is_none());
    }
}
