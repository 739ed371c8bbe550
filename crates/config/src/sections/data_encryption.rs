//! `apisix.data_encryption`, and `apisix.lru.secret` beside it.

use crate::reader::{Field, Section};
use crate::settings::data_encryption::DataEncryption;
use document::Value;
use document::{Diagnostic, Found, codes};
use std::time::Duration;

/// Sees to it that nodes which share etcd read each other's secrets. Without a keyring each would make a key of its own, so
/// nothing is encrypted then, as in APISIX.
pub(super) fn share(encryption: &mut DataEncryption, deployment: &Section<'_>, found: &Found) {
    if encryption.keyring.is_some() {
        return;
    }
    encryption.keyring = Some(Vec::new());
    let field = deployment.section("etcd").field("host").or_else(|| deployment.field("role"));
    let message =
        "secrets are stored in etcd without encryption: nodes need a key in common, and none is configured";
    let warning = Diagnostic::warning(codes::INSECURE_SETTING, message)
        .at(field.map(|field| field.at()))
        .path("apisix.data_encryption.keyring");
    found.add(warning.hint(
        "write the same list on every node, such as one key made with `openssl rand -hex 16`; add the data.key of a node \
         that has stored secrets before",
    ));
}

pub(super) fn read(apisix: &Section<'_>) -> DataEncryption {
    let default = DataEncryption::default();
    let section = apisix.section("data_encryption");
    let lru = apisix.section("lru").section("secret");
    let seconds = |key: &str, default: Duration| {
        let default = i64::try_from(default.as_secs()).unwrap_or(i64::MAX);
        Duration::from_secs(lru.integer(key, 1..=i64::from(u32::MAX), default).unsigned_abs())
    };
    let apisix_format = section.choice("format", &[("aead", false), ("apisix", true)], default.apisix_format);
    let keyring = section.field("keyring").map(|field| keys(&field, apisix_format));
    if apisix_format
        && keyring.is_none()
        && let Some(format) = section.field("format")
    {
        format.fail_as::<()>(
            codes::MISSING_SETTING,
            "APISIX's format needs a keyring that APISIX has too",
            "write apisix.data_encryption.keyring as it stands in APISIX's config.yaml",
        );
    }
    DataEncryption {
        fields: section.bool("enable_encrypt_fields", default.fields),
        keyring,
        apisix_format,
        secret_ttl: seconds("ttl", default.secret_ttl),
        secret_failure_ttl: seconds("neg_ttl", default.secret_failure_ttl),
    }
}

/// One key, or a list of them.
fn keys(field: &Field<'_>, apisix_format: bool) -> Vec<String> {
    let fields = match field.value() {
        Value::List(_) => field.list().unwrap_or_default(),
        _ => vec![field.clone()],
    };
    let key = |(at, field): (usize, &Field<'_>)| {
        let key = field.text()?;
        let fits = if apisix_format && at == 0 { matches!(key.len(), 16 | 32) } else { key.len() >= 16 };
        if !fits {
            let wanted = if apisix_format { "16 or 32" } else { "at least 16" };
            return field.fail(
                format!("a key of {} bytes; {wanted} are needed", key.len()),
                "make one with `openssl rand -hex 16`",
            );
        }
        Some(key.to_owned())
    };
    fields.iter().enumerate().filter_map(key).collect()
}
