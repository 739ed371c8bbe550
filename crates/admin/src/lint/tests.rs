//! Two plugins, of which one authenticates; and the order of findings.

use super::lint;
use crate::Resource;
use document::Severity;
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Plugin, Registry};
use serde_json::{Value, json};

pub(super) struct Keys;
pub(super) struct Other;

impl Plugin for Keys {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({})
    }
}

impl Authenticator for Keys {
    type CredentialConfig = Value;
    type Credential = ();

    fn credential_schema() -> Value {
        json!({})
    }

    fn credential(_: Value) -> Result<(Vec<u8>, ()), Vec<ConfigError>> {
        Ok((Vec::new(), ()))
    }
}

impl Plugin for Other {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({})
    }
}

#[test]
fn errors_come_first() {
    let registry = Registry::default();
    let resource = |key: &str, fields: Value| Resource {
        key: key.to_owned(),
        fields: fields.as_object().unwrap().clone(),
    };
    let resources = [
        resource("/routes/1", json!({"uri": "/", "upstream_id": "2"})),
        resource("/plugin_configs/1", json!({})),
    ];
    let found = lint(&registry, &resources, 0);
    let severities: Vec<_> = found.iter().map(|finding| (finding.code.name(), finding.severity)).collect();
    assert_eq!(severities, [("dangling-reference", Severity::Error), ("unused", Severity::Warning)]);
    let shown = found[0].to_json();
    assert_eq!((&shown["key"], &shown["path"]), (&json!("/routes/1"), &json!("/upstream_id")));
}
