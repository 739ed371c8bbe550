//! Google Cloud Secret Manager: the latest version of a secret, whole or one field of the JSON object that it is.

use super::gcp_token::Tokens;
use super::{Source, excerpt, read};
use crate::http::{Call, Client};
use crate::reference::json_field;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::resource::{GcpAccount, GcpSecret};
use serde_json::Value;

#[derive(Default)]
pub(super) struct Gcp {
    tokens: Tokens,
}

impl Source for Gcp {
    fn fetch(&self, client: &Client, config: Value, key: &str) -> Result<Value, String> {
        let config: GcpSecret = read(config)?;
        let trust_anyone = !config.ssl_verify;
        let account = account(config)?;
        let (name, field) = key.split_once('/').map_or((key, None), |(name, field)| (name, Some(field)));
        if name.is_empty() {
            return Err(format!("can't find main key, key: {key}"));
        }
        let token = self.tokens.token(client, &account, trust_anyone)?;
        let (base, project) = (account.entries_uri.trim_end_matches('/'), &account.project_id);
        let url = format!("{base}/projects/{project}/secrets/{name}/versions/latest:access");
        let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
        let answer = client.send(&Call { url: &url, headers: &headers, body: None, trust_anyone })?;
        if answer.status == 401 {
            // Revoked before its time: the next try asks for another.
            self.tokens.forget(&account);
        }
        if answer.status != 200 {
            let (status, said) = (answer.status, excerpt(&answer.body));
            return Err(format!("Google answers {status} for the secret {name}: {said}"));
        }
        let secret =
            payload(&answer.body).ok_or_else(|| format!("the secret {name} has no text as its payload"))?;
        field.map_or_else(|| Ok(Value::from(secret.clone())), |field| json_field(&secret, field))
    }
}

/// The service account, written in the resource or in the file that it names.
fn account(config: GcpSecret) -> Result<GcpAccount, String> {
    if let Some(account) = config.auth_config {
        return Ok(account);
    }
    let path = config.auth_file.ok_or("neither auth_config nor auth_file")?;
    let text = stdx::file::read_text(path.as_ref(), stdx::file::CREDENTIALS_BYTES_MAX)
        .map_err(|error| format!("{path} can't be read: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{path} is no service account: {error}"))
}

fn payload(body: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(body).ok()?;
    let data = STANDARD.decode(answer.get("payload")?.get("data")?.as_str()?).ok()?;
    String::from_utf8(data).ok()
}

#[cfg(test)]
mod tests {
    use super::super::gcp_token::tests::ACCOUNT_KEY;
    use super::super::stand_in::{self, Reply};
    use super::*;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static TOKENS_GIVEN: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn one_token_serves_many_secrets() {
        let server = stand_in::serve(|request| {
            if request.path == "/token" {
                TOKENS_GIVEN.fetch_add(1, Ordering::SeqCst);
                assert!(request.body.starts_with(
                    "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
                ));
                return Reply::new(
                    200,
                    r#"{"access_token":"t0ken","token_type":"Bearer","expires_in":3600}"#,
                );
            }
            assert_eq!(request.header("authorization"), Some("Bearer t0ken"));
            match request.path.as_str() {
                "/v1/projects/p/secrets/jack/versions/latest:access" => Reply::new(
                    200,
                    &json!({"payload": {"data": STANDARD.encode(r#"{"key":"v"}"#)}}).to_string(),
                ),
                _ => Reply::new(404, r#"{"error":{"status":"NOT_FOUND"}}"#),
            }
        });
        let config = json!({"auth_config": {
            "client_email": "a@p.iam.gserviceaccount.com", "private_key": ACCOUNT_KEY, "project_id": "p",
            "token_uri": format!("{}/token", server.url), "entries_uri": format!("{}/v1", server.url),
        }});
        let (gcp, client) = (Gcp::default(), Client::default());
        assert_eq!(gcp.fetch(&client, config.clone(), "jack/key"), Ok(json!("v")));
        assert_eq!(gcp.fetch(&client, config.clone(), "jack"), Ok(json!(r#"{"key":"v"}"#)));
        assert_eq!(TOKENS_GIVEN.load(Ordering::SeqCst), 1);
        for (key, message) in
            [("/key", "can't find main key"), ("none", "NOT_FOUND"), ("jack/none", "no field")]
        {
            let error = gcp.fetch(&client, config.clone(), key).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let missing = json!({"auth_file": "/does/not/exist"});
        assert!(gcp.fetch(&client, missing, "jack").unwrap_err().contains("/does/not/exist"));
    }
}
