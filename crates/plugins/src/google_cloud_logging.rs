//! Writes log entries to Google Cloud Logging in batches.
//!
//! ## When to use
//! Use it when logs are kept in Google Cloud.
//!
//! ## Example
//! ```json
//! {
//!     "google-cloud-logging": {
//!         "auth_config": {
//!             "project_id": "gateway",
//!             "client_email": "gateway@gateway.iam.gserviceaccount.com",
//!             "private_key": "-----BEGIN PRIVATE KEY-----...",
//!             "token_uri": "https://oauth2.googleapis.com/token"
//!         }
//!     }
//! }
//! ```
//! Instead of `auth_config`, `auth_file` names a service account key file of Google.
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - An `auth_file` is read when the configuration becomes active. The error log reports a failure once.

use crate::logging::{Collector, Entry, Logger, zulu};
use delivery::{Destination, HttpCollector};
use model::ConfigError;
use model::resource::GcpAccount;
use model::var::{Var, VarSource};
use plugin::{CompileContext, PluginDef};
use secrets::GoogleTokens;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<GoogleCloudLogging>>("google-cloud-logging", 407)
        .encrypt_fields(&["auth_config.private_key"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Google's files of accounts have about 2.5 KiB.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// For a batch, the token included.
const TIMEOUT: Duration = Duration::from_secs(30);

const ENTRIES_URI: &str = "https://logging.googleapis.com/v2/entries:write";

/// Renders entries in Google's form.
pub struct GoogleCloudLogging {
    log_name: String,
    resource: Value,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    auth_config: Option<Value>,
    auth_file: Option<String>,
    ssl_verify: bool,
    resource: Value,
    log_id: String,
}

fn scopes() -> Vec<String> {
    ["logging.read", "logging.write", "logging.admin", "cloud-platform"]
        .map(|scope| format!("https://www.googleapis.com/auth/{scope}"))
        .to_vec()
}

impl Collector for GoogleCloudLogging {
    type Config = Config;
    const NAME: &'static str = "google-cloud-logging";

    fn schema() -> Value {
        let text = |description: &str| json!({"description": description, "type": "string"});
        let mut scope = json!({
            "description": "What the token is for.",
            "type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string"}
        });
        let older = scope.clone();
        scope["default"] = scopes().into();
        json!({
            "type": "object",
            "properties": {
                "auth_config": {
                    "description": "The service account.",
                    "type": "object",
                    "properties": {
                        "client_email": text("Its address."),
                        "private_key": text("Its key, in PEM."),
                        "project_id": text("The project that is written to."),
                        "token_uri": {
                            "description": "Where tokens are asked for.",
                            "type": "string", "default": "https://oauth2.googleapis.com/token"
                        },
                        "scope": scope,
                        "scopes": older,
                        "entries_uri": {
                            "description": "Where entries are written.", "type": "string", "default": ENTRIES_URI
                        }
                    },
                    "required": ["client_email", "private_key", "project_id", "token_uri"]
                },
                "auth_file": text("A file with the same, in JSON."),
                "ssl_verify": {
                    "description": "Whether Google's certificate has to be valid.", "type": "boolean", "default": true
                },
                "resource": {
                    "description": "The monitored resource.",
                    "type": "object",
                    "properties": {"type": {"type": "string"}, "labels": {"type": "object"}},
                    "required": ["type"],
                    "default": {"type": "global"}
                },
                "log_id": {
                    "description": "The log's id, percent-encoded.",
                    "type": "string", "default": "apisix.apache.org%2Flogs"
                }
            },
            "oneOf": [{"required": ["auth_config"]}, {"required": ["auth_file"]}]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        cx: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let account = match (config.auth_config, &config.auth_file) {
            (Some(written), _) => {
                account(written).map_err(|error| vec![ConfigError::new("/auth_config", error)])?
            }
            (None, file) => match file_account(file.as_deref().unwrap_or_default()) {
                Ok(account) => account,
                // A resource is served without its log rather than not at all.
                Err(error) => {
                    let resource = cx.parent.resource_key;
                    if !resource.is_empty() {
                        tracing::error!(resource, "google-cloud-logging logs nothing: {error}");
                    }
                    let this = Self { log_name: String::new(), resource: config.resource };
                    return Ok((this, None));
                }
            },
        };
        let log_name = format!("projects/{}/logs/{}", account.project_id, config.log_id);
        let server = HttpCollector::new(vec![account.entries_uri.clone()], TIMEOUT, config.ssl_verify)
            .failure_from(201)
            .header("Content-Type", "application/json");
        let google = Google { server, account, verify: config.ssl_verify, tokens: cx.shared.get() };
        Ok((Self { log_name, resource: config.resource }, Some(google)))
    }

    fn render(&self, entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        let mut written =
            if entry.custom { json!({"jsonPayload": entry.fields}) } else { parts(entry.fields) };
        let id = source.var(&Var::RequestId).unwrap_or_default();
        let common = [
            ("labels", json!({"source": "apache-apisix-google-cloud-logging"})),
            ("timestamp", zulu(source).into()),
            ("resource", self.resource.clone()),
            ("insertId", String::from_utf8_lossy(&id).into()),
            ("logName", self.log_name.as_str().into()),
        ];
        for (name, value) in common {
            written[name] = value;
        }
        written.to_string().into_bytes()
    }
}

/// The account that `written` says; `scopes` is an older name of `scope`, which may be one text.
fn account(mut written: Value) -> Result<GcpAccount, String> {
    let members = written.as_object_mut().ok_or_else(|| "no JSON object".to_owned())?;
    if let Some(scope) = members.remove("scopes") {
        members.insert("scope".to_owned(), scope);
    }
    if let Some(Value::String(scope)) = members.get("scope") {
        members.insert("scope".to_owned(), json!([scope]));
    }
    members.entry("entries_uri").or_insert_with(|| ENTRIES_URI.into());
    serde_json::from_value(written).map_err(|error| error.to_string())
}

/// The account that a file says.
fn file_account(path: &str) -> Result<GcpAccount, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("auth_file {path}: {error}");
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(wrong(&"no regular file"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let written = serde_json::from_str(&text).map_err(|_| wrong(&"no JSON"))?;
    account(written).map_err(|error| wrong(&error))
}

/// The default entry as Google has requests (LogEntry, `httpRequest`).
fn parts(mut entry: Map<String, Value>) -> Value {
    let take = |entry: &mut Map<String, Value>, name: &str| entry.remove(name).unwrap_or_default();
    let [mut request, mut response] = ["request", "response"].map(|name| take(&mut entry, name));
    let latency_s = take(&mut entry, "latency").as_f64().unwrap_or_default() / 1000.0;
    let http = [
        ("requestMethod", request["method"].take()),
        ("requestUrl", request["url"].take()),
        ("requestSize", request["size"].take()),
        ("status", response["status"].take()),
        ("responseSize", response["size"].take()),
        ("userAgent", request["headers"]["user-agent"].take()),
        ("remoteIp", take(&mut entry, "client_ip")),
        ("serverIp", take(&mut entry, "upstream")),
        ("latency", format!("{latency_s:.3}s").into()),
    ];
    for name in ["server", "consumer", "start_time", "upstream_latency", "apisix_latency"] {
        entry.remove(name);
    }
    let http: Map<String, Value> = http
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    // The ids of route and service, and what `log_format_extra` adds.
    json!({"httpRequest": http, "jsonPayload": entry})
}

/// Google's API.
struct Google {
    server: HttpCollector,
    account: GcpAccount,
    verify: bool,
    tokens: Arc<GoogleTokens>,
}

impl Destination for Google {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        let authorization = self.tokens.authorization(&self.account, self.verify)?;
        let body = [b"{\"entries\":[", &entries.join(&b',')[..], b"],\"partialSuccess\":false}"].concat();
        self.server.post_with(&[("Authorization", &authorization)], &body)
    }
}
