//! An Admin API with a store of its own and a few plugins.

use admin::{Admin, AdminKey, AdminRequest, AdminSettings, ApiVersion, Role};
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Plugin, PluginDef, Registry};
use secrets::{Format, Keyring, Sealing};
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use store::{Embedded, EmbeddedConfig, Store};
use tempfile::TempDir;
use tokio::sync::watch;

pub(crate) const KEY: &str = "an-admin-key";
pub(crate) const VIEWER: &str = "a-viewer-key";

pub(crate) struct Bench {
    pub admin: Arc<Admin>,
    pub store: Arc<Embedded>,
    pub applied: watch::Sender<u64>,
    registry: Arc<Registry>,
    _directory: TempDir,
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?}", self.text))
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error_msg"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) fn settings() -> AdminSettings {
    AdminSettings {
        keys: vec![
            AdminKey { name: "admin".into(), key: KEY.into(), role: Role::Admin },
            AdminKey { name: "viewer".into(), key: VIEWER.into(), role: Role::Viewer },
        ],
        streams: true,
        ..AdminSettings::default()
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn v2() -> Self {
        Self::with(AdminSettings { version: ApiVersion::V2, ..settings() })
    }

    pub(crate) fn with(settings: AdminSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(EmbeddedConfig::new(directory.path().join("store.redb"))).unwrap();
        let store = Arc::new(store);
        let streams = Registry::new([count_def()], Map::new()).unwrap();
        let registry =
            Registry::new([limit_def(), split_def(), count_def(), keys_def()], Map::new()).unwrap();
        let registry = Arc::new(registry.with_streams(streams));
        let (applied, receiver) = watch::channel(u64::MAX);
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let admin = Arc::new(Admin::new(shared, Arc::clone(&registry), settings, receiver));
        Self { admin, store, applied, registry, _directory: directory }
    }

    /// The same with secrets encrypted in the store.
    pub(crate) fn sealed() -> Self {
        let mut bench = Self::new();
        let keyring = Keyring::new(&["0123456789abcdef".to_owned()], Format::Aead).unwrap();
        let sealing = Arc::new(Sealing::new(keyring, true, [("key-auth".into(), vec!["key".into()])]));
        let admin = bench.admin.with(Arc::clone(&bench.registry), settings());
        bench.admin = Arc::new(admin.with_sealing(sealing));
        bench
    }

    pub(crate) async fn call(&self, method: &str, target: &str, body: Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(request(method, &format!("/apisix/admin{target}"), &body)).await
    }

    pub(crate) async fn send(&self, request: AdminRequest) -> Reply {
        let response = self.admin.handle(request).await;
        let text = String::from_utf8(response.body).unwrap();
        Reply { status: response.status, headers: response.headers, text }
    }

    /// A call that must succeed.
    #[track_caller]
    pub(crate) fn done(
        &self,
        method: &'static str,
        target: &'static str,
        body: Value,
    ) -> impl Future<Output = Value> {
        let at = std::panic::Location::caller();
        async move {
            let reply = self.call(method, target, body).await;
            assert!(reply.status < 300, "{at}: {method} {target}: {reply:?}");
            reply.json()
        }
    }

    pub(crate) async fn revision(&self) -> u64 {
        self.store.list("/none").await.unwrap().revision
    }
}

pub(crate) fn request(method: &str, target: &str, body: &str) -> AdminRequest {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    AdminRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: vec![("X-API-KEY".to_owned(), KEY.to_owned())],
        body: body.as_bytes().to_vec(),
        body_size: body.len() as u64,
        peer: IpAddr::from([127, 0, 0, 1]),
        on_data_port: false,
    }
}

pub(crate) fn upstream() -> Value {
    json!({ "type": "roundrobin", "nodes": { "127.0.0.1:1980": 1 } })
}

pub(crate) fn route() -> Value {
    json!({ "uri": "/hello", "upstream": upstream() })
}

/// `value` without the times that a write sets, which must be there.
pub(crate) fn timeless(mut value: Value) -> Value {
    let fields = value.as_object_mut().unwrap();
    for time in ["create_time", "update_time"] {
        assert!(fields.shift_remove(time).is_some_and(|time| time.is_u64()), "{time}");
    }
    value
}

pub(crate) fn limit() -> Value {
    json!({ "count": 2, "time_window": 60 })
}

fn limit_def() -> PluginDef {
    PluginDef::new::<Limit>("limit-count", 1002).build()
}

fn split_def() -> PluginDef {
    PluginDef::new::<Split>("traffic-split", 966).build()
}

fn count_def() -> PluginDef {
    PluginDef::new::<Count>("prometheus", 500).build()
}

fn keys_def() -> PluginDef {
    PluginDef::new::<Keys>("key-auth", 2500).authenticates().build()
}

struct Limit;
struct Split;
struct Count;
struct Keys;

impl Plugin for Limit {
    type Config = Value;

    fn compile(config: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        match config["group"].as_str() {
            Some("taken") => Err(vec![ConfigError::new("/group", "group conf mismatched")]),
            _ => Ok(Self),
        }
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "count": { "type": "integer", "exclusiveMinimum": 0 },
                "time_window": { "type": "integer", "exclusiveMinimum": 0 },
                "rejected_code": { "type": "integer", "minimum": 200, "maximum": 599, "default": 503 },
                "group": { "type": "string" },
            },
            "required": ["count", "time_window"],
        })
    }

    fn metadata_schema() -> Option<Value> {
        Some(
            json!({ "type": "object", "properties": { "ikey": { "type": "string" } }, "required": ["ikey"] }),
        )
    }
}

impl Plugin for Split {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({ "type": "object", "properties": { "rules": { "type": "array" } } })
    }
}

impl Plugin for Count {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({ "type": "object", "properties": { "prefer_name": { "type": "boolean" } } })
    }
}

impl Plugin for Keys {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({ "type": "object", "properties": { "header": { "type": "string" } } })
    }
}

impl Authenticator for Keys {
    type CredentialConfig = Value;
    type Credential = ();

    fn credential_schema() -> Value {
        json!({ "type": "object", "properties": { "key": { "type": "string" } }, "required": ["key"] })
    }

    fn credential(config: Value) -> Result<(Vec<u8>, ()), Vec<ConfigError>> {
        Ok((config["key"].as_str().unwrap_or_default().into(), ()))
    }
}
