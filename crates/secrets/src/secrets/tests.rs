//! From stored bytes to revealed resources, with a manager that stands in for Vault.

use super::*;
use crate::source::stand_in::{self, Reply, Server};
use crate::{Format, Keyring, Lifetimes};
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;

/// A Vault of one secret, `kv/s`, whose field `f` is what the test says; 500 where it says nothing.
fn vault(field: &Arc<Mutex<Option<&'static str>>>) -> Server {
    let field = Arc::clone(field);
    stand_in::serve(move |_| match *field.lock().unwrap() {
        Some(value) => Reply::new(200, &json!({"data": {"f": value}}).to_string()),
        None => Reply::new(500, "{}"),
    })
}

fn secrets(lifetime: Duration) -> Secrets {
    let keyring = Keyring::new(&["0123456789abcdef".to_owned()], Format::Aead).unwrap();
    let fields = [("key-auth".into(), vec!["key".into()])];
    let sealing = Arc::new(Sealing::new(keyring, true, fields));
    let references = References::new(Lifetimes { value: lifetime, failure: lifetime });
    Secrets::new(sealing, references, vec!["key-auth".into()])
}

fn patience() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn reveal(secrets: &Secrets, kind: Kind, resource: &Value, until: Instant) -> (Value, usize) {
    let stored: Arc<[u8]> = resource.to_string().into_bytes().into();
    let revealed = secrets.reveal(kind, "1", "/x/1", &stored, until);
    (serde_json::from_slice(&revealed.value).unwrap(), revealed.references.len())
}

fn set_up(server: &Server, secrets: &Secrets) {
    let manager = json!({"uri": server.url, "prefix": "kv", "token": "root"});
    secrets.manager("vault/1", Some(manager.to_string().as_bytes()));
}

const REFERENCE: &str = "$secret://vault/1/s/f";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn encrypted_fields_and_references_are_revealed_where_they_stand() {
    let server = vault(&Arc::new(Mutex::new(Some("value"))));
    let secrets = secrets(HOUR);
    set_up(&server, &secrets);
    let path = std::env::var("PATH").unwrap();
    let mut sealed = json!({"plugins": {"key-auth": {"key": "k"}}});
    secrets.sealing.seal(Kind::Consumer, "a", sealed.as_object_mut().unwrap());
    for (kind, stored, expected, references) in [
        (Kind::Consumer, sealed, json!({"plugins": {"key-auth": {"key": "k"}}}), 0),
        (
            Kind::Route,
            json!({"desc": REFERENCE, "plugins": {"p": {"a": [{"b": REFERENCE}], "c": "$ENV://PATH"}}}),
            json!({"desc": REFERENCE, "plugins": {"p": {"a": [{"b": "value"}], "c": path}}}),
            1,
        ),
        (
            Kind::Ssl,
            json!({"cert": REFERENCE, "keys": [REFERENCE]}),
            json!({"cert": "value", "keys": ["value"]}),
            2,
        ),
        (
            Kind::Upstream,
            json!({"tls": {"client_key": REFERENCE}}),
            json!({"tls": {"client_key": "value"}}),
            1,
        ),
        (
            Kind::Service,
            json!({"upstream": {"tls": {"client_cert": REFERENCE}}}),
            json!({"upstream": {"tls": {"client_cert": "value"}}}),
            1,
        ),
    ] {
        assert_eq!(reveal(&secrets, kind, &stored, patience()), (expected, references));
    }
}

#[test]
fn what_apisix_wrote_is_read() {
    let secrets = secrets(HOUR);
    // As its JSON library writes: slashes escaped. Encrypted with APISIX's first default key.
    let text =
        r#"{"plugins":{"key-auth":{"key":"4y+JvURBE6ZwRbbgaryrhg=="},"p":{"a":"$env:\/\/NONE_SUCH"}}}"#;
    let stored: Arc<[u8]> = text.as_bytes().into();
    let revealed = secrets.reveal(Kind::Consumer, "a", "/consumers/a", &stored, patience());
    let value: Value = serde_json::from_slice(&revealed.value).unwrap();
    assert_eq!(value["plugins"], json!({"key-auth": {"key": "auth-one"}, "p": {"a": "$env://NONE_SUCH"}}));
}

#[test]
fn unresolved_references_stay_except_in_credentials_which_go() {
    let secrets = secrets(HOUR);
    let plugins = json!({"plugins": {"key-auth": {"key": REFERENCE}, "other": {"a": "$secret://vault"}}});
    assert_eq!(reveal(&secrets, Kind::Route, &plugins, patience()), (plugins.clone(), 1));
    let expected = json!({"plugins": {"other": {"a": "$secret://vault"}}});
    assert_eq!(reveal(&secrets, Kind::Consumer, &plugins, patience()), (expected, 1));
}

#[test]
fn a_changed_value_is_told_of_and_an_outage_changes_nothing() {
    let field = Arc::new(Mutex::new(Some("one")));
    let server = vault(&field);
    let secrets = secrets(Duration::from_millis(5));
    set_up(&server, &secrets);
    let stored = json!({"plugins": {"p": {"a": REFERENCE}}});
    let now =
        |secrets: &Secrets| reveal(secrets, Kind::Route, &stored, patience()).0["plugins"]["p"]["a"].clone();
    assert_eq!(now(&secrets), "one");
    *field.lock().unwrap() = None;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let wait = |for_at_most| {
        let changed = secrets.references().changed();
        runtime.block_on(async { tokio::time::timeout(for_at_most, changed).await.is_ok() })
    };
    assert!(!wait(Duration::from_millis(50)), "failures are no change");
    assert_eq!(now(&secrets), "one");
    *field.lock().unwrap() = Some("two");
    assert!(wait(Duration::from_secs(10)));
    let changed = secrets.references().take_changed();
    assert_eq!(changed.len(), 1);
    assert_eq!(now(&secrets), "two");
    changed.iter().for_each(|reference| secrets.references().forget(reference));
}

#[test]
fn a_value_that_comes_late_and_a_manager_that_comes_later_are_changes() {
    let server = vault(&Arc::new(Mutex::new(Some("one"))));
    let secrets = secrets(HOUR);
    let stored = json!({"plugins": {"p": {"a": REFERENCE}}});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert_eq!(reveal(&secrets, Kind::Route, &stored, patience()).0, stored, "no manager yet");
    set_up(&server, &secrets);
    let mut value = stored.clone();
    // The first change is that the failure is forgotten, the second the value.
    for _ in 0..2 {
        if value != stored {
            break;
        }
        runtime.block_on(secrets.references().changed());
        assert_eq!(secrets.references().take_changed().len(), 1);
        value = reveal(&secrets, Kind::Route, &stored, Instant::now()).0;
    }
    assert_eq!(value["plugins"]["p"]["a"], "one");
    secrets.manager("vault/1", None);
    assert_eq!(secrets.references().take_changed().len(), 1);
    assert_eq!(reveal(&secrets, Kind::Route, &stored, patience()).0, stored, "deleted");
}
