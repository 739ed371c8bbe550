//! `secrets/{manager}`: where `$secret://{manager}/{id}/...` references are looked up.

use serde::Deserialize;
use stdx::Secret;

/// The managers that there may be secrets of, as in keys.
pub const SECRET_MANAGERS: [&str; 3] = ["vault", "aws", "gcp"];

/// HashiCorp Vault with its KV engine.
#[derive(Debug, Clone, Deserialize)]
pub struct VaultSecret {
    /// The server: `http://127.0.0.1:8200`.
    pub uri: String,
    /// Path of the engine and of what is below it: `kv/apisix`.
    pub prefix: String,
    /// The token; may be a reference.
    pub token: Secret,
    /// The namespace, of Vault Enterprise and HCP.
    pub namespace: Option<String>,
}

/// AWS Secrets Manager.
#[derive(Debug, Clone, Deserialize)]
pub struct AwsSecret {
    /// The access key's id; may be a reference.
    pub access_key_id: String,
    /// The access key; may be a reference.
    pub secret_access_key: Secret,
    /// A temporary key's token.
    pub session_token: Option<Secret>,
    /// The region; `us-east-1` where absent.
    #[serde(default = "us_east_1")]
    pub region: String,
    /// The server; AWS's own of the region where absent.
    pub endpoint_url: Option<String>,
}

fn us_east_1() -> String {
    "us-east-1".to_owned()
}

/// Google Cloud Secret Manager.
#[derive(Debug, Clone, Deserialize)]
pub struct GcpSecret {
    /// The service account, or
    pub auth_config: Option<GcpAccount>,
    /// the file that holds it.
    pub auth_file: Option<String>,
    /// Whether the server's certificate is verified.
    #[serde(default = "yes")]
    pub ssl_verify: bool,
}

fn yes() -> bool {
    true
}

/// A Google Cloud service account.
#[derive(Debug, Clone, Deserialize)]
pub struct GcpAccount {
    /// The account's address.
    pub client_email: String,
    /// Its key in PEM; may be a reference.
    pub private_key: Secret,
    /// The project whose secrets are read.
    pub project_id: String,
    /// Where tokens are asked for.
    #[serde(default = "token_uri")]
    pub token_uri: String,
    /// What the token is for.
    #[serde(default = "scope")]
    pub scope: Vec<String>,
    /// Where secrets are read.
    #[serde(default = "entries_uri")]
    pub entries_uri: String,
}

fn token_uri() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

fn scope() -> Vec<String> {
    vec!["https://www.googleapis.com/auth/cloud-platform".to_owned()]
}

fn entries_uri() -> String {
    "https://secretmanager.googleapis.com/v1".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn credentials_are_not_shown() {
        let vault: VaultSecret = from_value(json!({ "uri": "u", "prefix": "p", "token": "s3cret" })).unwrap();
        let aws = json!({ "access_key_id": "id", "secret_access_key": "s3cret", "session_token": "s3cret" });
        let aws: AwsSecret = from_value(aws).unwrap();
        let account = json!({ "client_email": "e", "private_key": "s3cret", "project_id": "p" });
        let gcp: GcpSecret = from_value(json!({ "auth_config": account })).unwrap();
        let ssl = json!({ "cert": "c", "key": "s3cret", "certs": ["c"], "keys": ["s3cret"] });
        let ssl: crate::resource::Ssl = from_value(ssl).unwrap();
        let shown = format!("{vault:?} {aws:?} {gcp:?} {ssl:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
