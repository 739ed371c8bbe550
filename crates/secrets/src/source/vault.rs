//! HashiCorp Vault, its KV engine in both versions, and whatever speaks its API (OpenBao).
//!
//! A reference's key is `{secret}/{field}`. Of a versioned engine (KV 2) the path has `data` after the mount, which the
//! resource's `prefix` may name (`kv/data/apisix`) or leave out (`kv/apisix`): Vault says which it wants.

use super::{Source, excerpt, read};
use crate::http::{Answer, Call, Client};
use model::resource::VaultSecret;
use serde_json::Value;

pub(super) struct Vault;

impl Source for Vault {
    fn fetch(&self, client: &Client, config: Value, key: &str) -> Result<Value, String> {
        let config: VaultSecret = read(config)?;
        let (secret, field) = key.rsplit_once('/').ok_or_else(|| format!("error key format, key: {key}"))?;
        if secret.is_empty() {
            return Err(format!("can't find main key, key: {key}"));
        }
        if field.is_empty() {
            return Err(format!("can't find sub key, key: {key}"));
        }
        let prefix = config.prefix.trim_matches('/');
        let mut answer = ask(client, &config, &format!("{prefix}/{secret}"))?;
        if answer.status == 404 && answer.body.contains("versioned K/V") {
            let (mount, below) = prefix
                .split_once('/')
                .map_or((prefix, String::new()), |(mount, below)| (mount, format!("{below}/")));
            answer = ask(client, &config, &format!("{mount}/data/{below}{secret}"))?;
        }
        if answer.status != 200 {
            return Err(format!(
                "Vault answers {} to {prefix}/{secret}: {}",
                answer.status,
                excerpt(&answer.body)
            ));
        }
        let fields = fields(&answer.body).ok_or("Vault's answer has no data")?;
        let found = fields.get(field).filter(|value| !value.is_null()).cloned();
        found.ok_or_else(|| format!("the secret {prefix}/{secret} has no field {field}"))
    }
}

fn ask(client: &Client, config: &VaultSecret, path: &str) -> Result<Answer, String> {
    let url = format!("{}/v1/{}", config.uri.trim_end_matches('/'), normal(path));
    let mut headers = vec![("X-Vault-Token", config.token.as_str()), ("X-Vault-Request", "true")];
    headers.extend(config.namespace.as_deref().map(|namespace| ("X-Vault-Namespace", namespace)));
    client.send(&Call { url: &url, headers: &headers, ..Call::default() })
}

/// The secret's fields: `data` of KV 1, `data.data` of KV 2, where `metadata` stands beside it.
fn fields(body: &str) -> Option<Value> {
    let mut answer: Value = serde_json::from_str(body).ok()?;
    let data = answer.get_mut("data")?;
    let versioned = data.get("data").is_some_and(Value::is_object)
        && data.get("metadata").and_then(|metadata| metadata.get("version")).is_some();
    let data = if versioned { data.get_mut("data")? } else { data };
    Some(data.take())
}

/// A path without empty segments and without those that would leave it, which a reference must not do.
fn normal(path: &str) -> String {
    let segments: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::{self, Reply};
    use super::*;
    use serde_json::json;

    fn fetch(config: &Value, key: &str) -> Result<Value, String> {
        Vault.fetch(&Client::default(), config.clone(), key)
    }

    #[test]
    fn both_versions_of_the_engine_are_read() {
        // What a Vault 1.15 server answers, cut to what matters.
        let server = stand_in::serve(|request| {
            assert_eq!(request.header("x-vault-namespace"), Some("team"));
            if request.header("x-vault-token") != Some("root") {
                return Reply::new(403, r#"{"errors":["permission denied"]}"#);
            }
            match request.path.as_str() {
                "/v1/kv1/apisix/jack" => Reply::new(
                    200,
                    r#"{"data":{"key":"value","number":7,"data":{"key":"inner"}},"warnings":null}"#,
                ),
                "/v1/kv2/data/apisix/jack" => Reply::new(
                    200,
                    r#"{"data":{"data":{"key":"second"},"metadata":{"version":3,"deletion_time":""}}}"#,
                ),
                "/v1/kv2/apisix/jack" => Reply::new(
                    404,
                    r#"{"data":null,"warnings":["Invalid path for a versioned K/V secrets engine. See the API docs"]}"#,
                ),
                _ => Reply::new(404, r#"{"errors":[]}"#),
            }
        });
        let config = |prefix: &str, token: &str| json!({"uri": server.url, "prefix": prefix, "token": token, "namespace": "team"});
        for (prefix, key, expected) in [
            ("kv1/apisix", "jack/key", json!("value")),
            ("/kv1/apisix/", "jack/number", json!(7)),
            ("kv2/data/apisix", "jack/key", json!("second")),
            ("kv2/apisix", "jack/key", json!("second")),
            ("kv2", "apisix/jack/key", json!("second")),
        ] {
            assert_eq!(fetch(&config(prefix, "root"), key), Ok(expected), "{prefix} {key}");
        }
        for (prefix, token, key, message) in [
            ("kv1/apisix", "root", "key", "error key format"),
            ("kv1/apisix", "root", "/key", "can't find main key"),
            ("kv1/apisix", "root", "jack/", "can't find sub key"),
            ("kv1/apisix", "root", "jack/none", "has no field none"),
            ("kv1/apisix", "root", "none/key", "404"),
            ("kv1/apisix", "wrong", "jack/key", "permission denied"),
        ] {
            let error = fetch(&config(prefix, token), key).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn references_stay_below_the_prefix() {
        assert_eq!(normal("kv/../sys/./x//y"), "kv/sys/x/y");
    }

    #[test]
    fn a_server_that_is_not_there_is_a_reason() {
        let config = json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "token": "root"});
        assert!(fetch(&config, "a/b").is_err());
    }
}
