//! Which fields of stored resources are encrypted, and doing it: when the Admin API writes, and back when it or the
//! snapshot reads.

use crate::fields;
use crate::keyring::{Format, Keyring, PREFIX};
use crate::reference::Reference;
use model::Kind;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The fields of secret managers' resources that are secrets themselves.
const MANAGER_FIELDS: [&str; 4] = ["token", "secret_access_key", "session_token", "auth_config.private_key"];

/// Encrypts and decrypts the secret fields of resources.
#[derive(Debug)]
pub struct Sealing {
    keyring: Keyring,
    /// Whether plugins' fields are encrypted on write (`enable_encrypt_fields`). Private keys always are.
    plugins_on_write: bool,
    /// By plugin: its `encrypt_fields`.
    plugin_fields: BTreeMap<Arc<str>, Vec<Cow<'static, str>>>,
}

/// The direction, and how far it goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Seal,
    Open,
    /// What a client sends back as it was shown.
    Accept,
    /// Plugins and managers alone: what the Admin API shows.
    Show,
    /// All that is secret, however it is stored, becomes [`MASK`].
    Mask,
}

/// What stands for a secret where it is not to be seen.
pub const MASK: &str = "***";

impl Sealing {
    /// Sealing with these keys. `plugin_fields` are the `encrypt_fields` of every plugin that has some.
    #[must_use]
    pub fn new(
        keyring: Keyring,
        plugins_on_write: bool,
        plugin_fields: impl IntoIterator<Item = (Arc<str>, Vec<Cow<'static, str>>)>,
    ) -> Self {
        let plugin_fields = plugin_fields.into_iter().filter(|(_, fields)| !fields.is_empty()).collect();
        Self { keyring, plugins_on_write, plugin_fields }
    }

    /// The plugins that have secret fields.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &str> {
        self.plugin_fields.keys().map(|name| &**name)
    }

    /// Encrypts what is to be secret in a resource of `kind` called `id`. Texts that are encrypted already stay as they
    /// are, and so do references: they are no secrets.
    pub fn seal(&self, kind: Kind, id: &str, resource: &mut Map<String, Value>) {
        self.walk(Step::Seal, kind, id, resource);
    }

    /// Decrypts everything that is encrypted in a resource. What no key opens stays as it is: it was never encrypted,
    /// or its key is gone.
    pub fn open(&self, kind: Kind, id: &str, resource: &mut Map<String, Value>) {
        self.walk(Step::Open, kind, id, resource);
    }

    /// Decrypts what a client sends back in the form in which a write or a read showed it, so that it is checked as what
    /// it is. A text of a plugin is taken for encrypted only in our form, which says so itself.
    pub fn accept(&self, kind: Kind, id: &str, resource: &mut Map<String, Value>) {
        self.walk(Step::Accept, kind, id, resource);
    }

    /// Decrypts what the Admin API shows in the clear, as APISIX does: plugins' fields, not private keys.
    pub fn show(&self, kind: Kind, id: &str, resource: &mut Map<String, Value>) {
        self.walk(Step::Show, kind, id, resource);
    }

    /// Puts [`MASK`] in place of everything secret, stored encrypted or not. References stay: they are no secrets.
    pub fn mask(&self, kind: Kind, id: &str, resource: &mut Map<String, Value>) {
        self.walk(Step::Mask, kind, id, resource);
    }

    fn walk(&self, step: Step, kind: Kind, id: &str, resource: &mut Map<String, Value>) {
        let collection = kind.collection();
        match kind {
            Kind::Ssl if step != Step::Show => {
                let mut key = |text: &str| self.private_key(step, "ssls/key", text);
                if let Some(value) = resource.get_mut("key") {
                    fields::text(value, &mut key);
                }
                if let Some(Value::Array(keys)) = resource.get_mut("keys") {
                    keys.iter_mut().for_each(|value| fields::text(value, &mut key));
                }
            }
            Kind::Secret => self.manager(step, resource),
            Kind::PluginMetadata => self.metadata(step, id, resource),
            Kind::Upstream => self.client_key(step, resource),
            _ => {}
        }
        if let Some(Value::Object(upstream)) = resource.get_mut("upstream") {
            self.client_key(step, upstream);
        }
        if let Some(Value::Object(plugins)) = resource.get_mut("plugins") {
            for (name, config) in plugins {
                self.plugin(step, collection, name, config);
            }
        }
    }

    fn plugin(&self, step: Step, collection: &str, name: &str, config: &mut Value) {
        if step == Step::Seal && !self.plugins_on_write {
            return;
        }
        for path in self.plugin_fields.get(name).into_iter().flatten() {
            let place = format!("{collection}/{name}/{path}");
            fields::change(config, path, &mut |text| self.text(step, &place, text));
        }
    }

    fn metadata(&self, step: Step, name: &str, resource: &mut Map<String, Value>) {
        if self.plugin_fields.contains_key(name) {
            let mut config = Value::Object(std::mem::take(resource));
            self.plugin(step, Kind::PluginMetadata.collection(), name, &mut config);
            if let Value::Object(config) = config {
                *resource = config;
            }
        }
    }

    /// The credentials for a secret manager. APISIX would not decrypt them, so in its form they stay in the clear.
    fn manager(&self, step: Step, resource: &mut Map<String, Value>) {
        if step == Step::Seal && self.keyring.format() == Format::Apisix {
            return;
        }
        let mut config = Value::Object(std::mem::take(resource));
        for path in MANAGER_FIELDS {
            let place = format!("secrets/{path}");
            // APISIX never wrote these encrypted, so what is not in our form is no ciphertext.
            fields::change(&mut config, path, &mut |text| match step {
                Step::Seal | Step::Mask | Step::Accept => self.text(step, &place, text),
                Step::Open | Step::Show => {
                    text.starts_with(PREFIX).then(|| self.text(step, &place, text)).flatten()
                }
            });
        }
        if let Value::Object(config) = config {
            *resource = config;
        }
    }

    fn client_key(&self, step: Step, upstream: &mut Map<String, Value>) {
        if step == Step::Show {
            return;
        }
        if let Some(key) = upstream.get_mut("tls").and_then(|tls| tls.get_mut("client_key")) {
            fields::text(key, &mut |text| self.private_key(step, "upstream/tls/client_key", text));
        }
    }

    /// Of a private key only PEM is encrypted, and what is PEM is not decrypted.
    fn private_key(&self, step: Step, place: &str, text: &str) -> Option<String> {
        // Text may come before the PEM, such as the bag attributes of `openssl pkcs12`; what is encrypted has no hyphens.
        let pem = text.trim_start().starts_with("---") || text.contains("-----BEGIN ");
        match step {
            Step::Mask => self.text(step, place, text),
            Step::Seal => pem.then(|| self.text(step, place, text)).flatten(),
            _ if pem => None,
            Step::Accept => self.keyring.open(place, text),
            _ => self.text(step, place, text),
        }
    }

    fn text(&self, step: Step, place: &str, text: &str) -> Option<String> {
        match step {
            Step::Seal => {
                let sealed = text.starts_with(PREFIX) && self.keyring.open(place, text).is_some();
                if sealed || Reference::is_one(text) { None } else { self.keyring.seal(place, text) }
            }
            Step::Mask => (!Reference::is_one(text)).then(|| MASK.to_owned()),
            Step::Accept => text.starts_with(PREFIX).then(|| self.keyring.open(place, text)).flatten(),
            Step::Open | Step::Show => {
                let opened = self.keyring.open(place, text);
                if opened.is_none() && text.starts_with(PREFIX) {
                    tracing::error!(
                        place,
                        "an encrypted field opens with no key of apisix.data_encryption.keyring"
                    );
                }
                opened
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sealing(format: Format, plugins_on_write: bool) -> Sealing {
        let keyring = Keyring::new(&["0123456789abcdef".to_owned()], format).unwrap();
        let fields = [
            ("key-auth".into(), vec!["key".into()]),
            ("kafka-logger".into(), vec!["brokers.password".into()]),
        ];
        Sealing::new(keyring, plugins_on_write, fields)
    }

    fn object(value: impl std::borrow::Borrow<Value>) -> Map<String, Value> {
        value.borrow().as_object().cloned().unwrap()
    }

    #[test]
    fn each_kind_s_secrets_are_sealed_and_opened() {
        for before in ["", "\n", "  ", "\u{feff}", "Bag Attributes\n    friendlyName: a\n"] {
            each_kind_of_secret_is_sealed(&format!("{before}-----BEGIN PRIVATE KEY-----\n-"));
        }
    }

    fn each_kind_of_secret_is_sealed(pem: &str) {
        for (kind, resource, secrets) in [
            (Kind::Consumer, json!({"plugins": {"key-auth": {"key": "s3cret"}}}), &["s3cret"][..]),
            (Kind::Route, json!({"upstream": {"tls": {"client_key": pem}}, "plugins": {}}), &["BEGIN"]),
            (Kind::Upstream, json!({"tls": {"client_key": pem, "client_cert": "c"}}), &["BEGIN"]),
            (Kind::Ssl, json!({"cert": "c", "key": pem, "keys": [pem, pem]}), &["BEGIN"]),
            (Kind::PluginMetadata, json!({"brokers": [{"password": "s3cret"}]}), &["s3cret"]),
            (Kind::Secret, json!({"token": "root", "auth_config": {"private_key": pem}}), &["root", "BEGIN"]),
        ] {
            let sealing = sealing(Format::Aead, true);
            let id = "kafka-logger";
            let mut stored = object(resource.clone());
            sealing.seal(kind, id, &mut stored);
            let text = Value::Object(stored.clone()).to_string();
            for mut masked in [stored.clone(), object(resource.clone())] {
                sealing.mask(kind, id, &mut masked);
                let masked = Value::Object(masked).to_string();
                assert!(
                    masked.contains(MASK) && secrets.iter().all(|secret| !masked.contains(secret)),
                    "{masked}"
                );
            }
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
            let mut twice = stored.clone();
            sealing.seal(kind, id, &mut twice);
            assert_eq!(twice, stored, "sealing twice");
            let mut sent_back = stored.clone();
            sealing.accept(kind, id, &mut sent_back);
            assert_eq!(sent_back, object(&resource), "{kind:?}");
            sealing.open(kind, id, &mut stored);
            assert_eq!(stored, object(resource), "{kind:?}");
        }
    }

    #[test]
    fn what_is_shown_has_no_private_keys_and_references_stay_readable() {
        let sealing = sealing(Format::Aead, true);
        let pem = "---- key";
        let mut route = object(json!({
            "plugins": {"key-auth": {"key": "$secret://vault/1/a/b"}},
            "upstream": {"tls": {"client_key": pem}},
        }));
        sealing.seal(Kind::Route, "1", &mut route);
        assert_eq!(route["plugins"]["key-auth"]["key"], "$secret://vault/1/a/b");
        sealing.show(Kind::Route, "1", &mut route);
        assert!(route["upstream"]["tls"]["client_key"].as_str().unwrap().starts_with(PREFIX));
    }

    #[test]
    fn with_encryption_of_fields_switched_off_private_keys_are_still_sealed() {
        let sealing = sealing(Format::Aead, false);
        let mut route = object(json!({
            "plugins": {"key-auth": {"key": "k"}}, "upstream": {"tls": {"client_key": "---"}},
        }));
        sealing.seal(Kind::Route, "1", &mut route);
        assert_eq!(route["plugins"]["key-auth"]["key"], "k");
        assert_ne!(route["upstream"]["tls"]["client_key"], "---");
    }

    #[test]
    fn a_shared_store_gets_apisix_s_form_where_apisix_reads_it() {
        let sealing = sealing(Format::Apisix, true);
        let mut consumer = object(json!({"plugins": {"key-auth": {"key": "auth-one"}}}));
        sealing.seal(Kind::Consumer, "a", &mut consumer);
        let stored = consumer["plugins"]["key-auth"]["key"].as_str().unwrap().to_owned();
        assert!(!stored.starts_with(PREFIX) && stored != "auth-one");
        sealing.accept(Kind::Consumer, "a", &mut consumer);
        assert_eq!(consumer["plugins"]["key-auth"]["key"], *stored, "it may be a key that looks like that");
        sealing.show(Kind::Consumer, "a", &mut consumer);
        assert_eq!(consumer["plugins"]["key-auth"]["key"], "auth-one");
        let mut manager = object(json!({"token": "root"}));
        sealing.seal(Kind::Secret, "vault/1", &mut manager);
        assert_eq!(manager["token"], "root");
    }
}
