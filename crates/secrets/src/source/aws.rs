//! AWS Secrets Manager, and what speaks its API (LocalStack).
//!
//! Names of secrets may have slashes, so where the name ends and a JSON field begins is open: the longest name that
//! exists is meant, as in APISIX.

use super::sigv4::{self, Credentials};
use super::{Source, excerpt, read};
use crate::http::{Call, Client};
use crate::limits::AWS_NAMES_MAX;
use crate::reference::json_field;
use model::resource::AwsSecret;
use serde_json::{Value, json};
use std::time::SystemTime;

pub(super) struct Aws;

/// Why there is no secret of a name.
enum Missing {
    /// There is none of this name; a shorter one may exist.
    Name(String),
    Other(String),
}

impl Source for Aws {
    fn fetch(&self, client: &Client, config: Value, key: &str) -> Result<Value, String> {
        let config: AwsSecret = read(config)?;
        if key.is_empty() || key.starts_with('/') {
            return Err(format!("can't find main key, key: {key}"));
        }
        let mut last = String::new();
        let ends = std::iter::once(key.len()).chain(key.rmatch_indices('/').map(|(at, _)| at));
        for end in ends.take(AWS_NAMES_MAX) {
            let (name, field) = (&key[..end], key.get(end + 1..));
            match secret(client, &config, name) {
                Ok(secret) => {
                    return field
                        .map_or_else(|| Ok(Value::from(secret.clone())), |field| json_field(&secret, field));
                }
                Err(Missing::Name(reason)) => last = reason,
                Err(Missing::Other(reason)) => return Err(reason),
            }
        }
        Err(last)
    }
}

fn secret(client: &Client, config: &AwsSecret, name: &str) -> Result<String, Missing> {
    let endpoint = config.endpoint_url.clone();
    let endpoint =
        endpoint.unwrap_or_else(|| format!("https://secretsmanager.{}.amazonaws.com", config.region));
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("https", &endpoint));
    let host = rest.split('/').next().unwrap_or_default();
    let body = json!({ "SecretId": name, "VersionStage": "AWSCURRENT" }).to_string();
    let mut headers = vec![
        ("content-type", "application/x-amz-json-1.1".to_owned()),
        ("host", host.to_owned()),
        ("x-amz-target", "secretsmanager.GetSecretValue".to_owned()),
    ];
    headers.extend(config.session_token.as_ref().map(|token| ("x-amz-security-token", token.to_string())));
    let credentials = Credentials {
        access_key_id: &config.access_key_id,
        secret_access_key: &config.secret_access_key,
        region: &config.region,
        service: "secretsmanager",
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let signed = sigv4::sign(&credentials, now, "POST", ("/", ""), &headers, body.as_bytes());
    headers.push(("x-amz-date", signed.date));
    headers.push(("authorization", signed.authorization));
    let lines: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let url = format!("{scheme}://{host}/");
    let call = Call { url: &url, headers: &lines, body: Some(&body), ..Call::default() };
    let answer = client.send(&call).map_err(Missing::Other)?;
    let read: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    if answer.status == 200 {
        let secret = read.get("SecretString").and_then(Value::as_str).map(str::to_owned);
        return secret
            .ok_or_else(|| Missing::Other(format!("the secret {name} has no text (`SecretString`)")));
    }
    let reason = format!("AWS answers {} for the secret {name}: {}", answer.status, excerpt(&answer.body));
    let unknown =
        read.get("__type").and_then(Value::as_str).is_some_and(|kind| kind.contains("ResourceNotFound"));
    Err(if unknown { Missing::Name(reason) } else { Missing::Other(reason) })
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::{self, Reply};
    use super::*;

    #[test]
    fn the_longest_name_that_exists_is_meant() {
        let server = stand_in::serve(|request| {
            assert_eq!(request.header("x-amz-target"), Some("secretsmanager.GetSecretValue"));
            assert_eq!(request.header("x-amz-security-token"), Some("session"));
            let authorization = request.header("authorization").unwrap();
            assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=id/"), "{authorization}");
            assert!(
                authorization.contains(
                    "/eu-west-1/secretsmanager/aws4_request, \
                     SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, Signature="
                ),
                "{authorization}"
            );
            let asked: Value = serde_json::from_str(&request.body).unwrap();
            assert_eq!(asked["VersionStage"], "AWSCURRENT");
            match asked["SecretId"].as_str().unwrap() {
                "john/secret" => {
                    Reply::new(200, r#"{"Name":"john/secret","SecretString":"{\"key\":\"v\",\"a/b\":2}"}"#)
                }
                "plain" => Reply::new(200, r#"{"SecretString":"text"}"#),
                "binary" => Reply::new(200, r#"{"SecretBinary":"AAAA"}"#),
                "denied/x" => Reply::new(400, r#"{"__type":"AccessDeniedException","Message":"no"}"#),
                _ => Reply::new(400, r#"{"__type":"ResourceNotFoundException","Message":"can't find it"}"#),
            }
        });
        let config = json!({
            "access_key_id": "id", "secret_access_key": "key", "session_token": "session", "region": "eu-west-1",
            "endpoint_url": server.url,
        });
        let fetch = |key: &str| Aws.fetch(&Client::default(), config.clone(), key);
        assert_eq!(fetch("john/secret/key"), Ok(json!("v")));
        assert_eq!(fetch("john/secret/a/b"), Ok(json!(2)));
        assert_eq!(fetch("plain"), Ok(json!("text")));
        assert_eq!(fetch("john/secret"), Ok(json!(r#"{"key":"v","a/b":2}"#)));
        for (key, message) in [
            ("", "can't find main key"),
            ("/a", "can't find main key"),
            ("john/secret/none", "no field none"),
            ("plain/field", "no JSON"),
            ("binary", "no text"),
            ("denied/x", "AccessDenied"),
            ("none/at/all", "secret none: "),
        ] {
            let error = fetch(key).unwrap_err();
            assert!(error.contains(message), "{key}: {error}");
        }
    }
}
