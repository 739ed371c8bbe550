//! What encrypts stored secrets, and what knows the values behind references.

use std::path::Path;
use std::sync::Arc;

use crate::key_file;
use anyhow::Context as _;
use config::Settings;
use secrets::{Format, Keyring, Lifetimes, References, Sealing, Secrets};

/// The name of the key's file in the data directory.
const NAME: &str = "data.key";

/// What encrypts and decrypts, with the keys of the configuration or, where it names none, one of this gateway's own.
///
/// # Errors
/// When a key is none, or can't be read or made.
pub fn sealing(settings: &Settings, data_dir: &Path) -> anyhow::Result<Arc<Sealing>> {
    let encryption = &settings.data_encryption;
    let format = if encryption.apisix_format { Format::Apisix } else { Format::Aead };
    let entries = match &encryption.keyring {
        Some(entries) => entries.clone(),
        None => {
            let made = key_file::read_or_make(data_dir.join(NAME), "the data encryption key")?;
            if made.new {
                tracing::info!(
                    target: observe::error_log::NOTICE,
                    "a key to encrypt stored secrets with was made: {}; a backup of the store is of no use without it",
                    made.path.display()
                );
            }
            vec![made.key.into_string()]
        }
    };
    let keyring = Keyring::new(&entries, format).context("apisix.data_encryption.keyring")?;
    if keyring.well_known() {
        tracing::warn!(
            "apisix.data_encryption.keyring begins with APISIX's default key, which everybody knows; put a key of your \
             own before it"
        );
    }
    let fields = plugins::all().into_iter().map(|def| (def.name, def.encrypt_fields));
    Ok(Arc::new(Sealing::new(keyring, encryption.fields, fields)))
}

/// What the snapshots are built with.
pub fn secrets(settings: &Settings, sealing: &Arc<Sealing>) -> Arc<Secrets> {
    let lifetimes = Lifetimes {
        value: settings.data_encryption.secret_ttl,
        failure: settings.data_encryption.secret_failure_ttl,
    };
    let auth = plugins::all().into_iter().filter(|def| def.has_credentials()).map(|def| def.name).collect();
    Arc::new(Secrets::new(Arc::clone(sealing), References::new(lifetimes), auth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::read_text;
    use model::Kind;
    use serde_json::{Map, Value, json};

    fn sealed(text: &str, data_dir: &Path) -> Map<String, Value> {
        let settings = read_text("f", text, &|_| None).unwrap().settings;
        let sealing = sealing(&settings, data_dir).unwrap();
        let mut resource = Map::from_iter([("key".to_owned(), json!("--- pem"))]);
        sealing.seal(Kind::Ssl, "1", &mut resource);
        let mut opened = resource.clone();
        sealing.open(Kind::Ssl, "1", &mut opened);
        assert_eq!(opened["key"], "--- pem");
        resource
    }

    #[test]
    fn without_a_keyring_a_key_is_made_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let resource = sealed("", dir.path());
        assert!(resource["key"].as_str().unwrap().starts_with(secrets::PREFIX));
        let settings = Settings::default();
        let mut again = resource;
        sealing(&settings, dir.path()).unwrap().open(Kind::Ssl, "1", &mut again);
        assert_eq!(again["key"], "--- pem");
        let other = tempfile::tempdir().unwrap();
        let mut lost = sealed("", dir.path());
        sealing(&settings, other.path()).unwrap().open(Kind::Ssl, "1", &mut lost);
        assert_ne!(lost["key"], "--- pem");
    }

    #[test]
    fn the_keyring_says_how_and_an_empty_one_that_not() {
        let dir = tempfile::tempdir().unwrap();
        let keyring = "apisix: {data_encryption: {keyring: [qeddd145sfvddff3], format: apisix}}";
        assert!(!sealed(keyring, dir.path())["key"].as_str().unwrap().starts_with('$'));
        assert_eq!(sealed("apisix: {data_encryption: {keyring: []}}", dir.path())["key"], "--- pem");
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "no key was made");
        for refused in [
            "apisix: {data_encryption: {keyring: [short]}}",
            "apisix: {data_encryption: {keyring: 0123456789abcdefg, format: apisix}}",
            "apisix: {data_encryption: {format: apisix}}",
            "apisix: {data_encryption: {format: rot13}}",
        ] {
            assert!(read_text("f", refused, &|_| None).is_err(), "{refused}");
        }
    }
}
