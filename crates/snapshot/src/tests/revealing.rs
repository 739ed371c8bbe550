//! Encrypted fields and references reach plugins as what they stand for.

use super::fixture::{Gateway, delete, entry, put, trace};
use crate::{BuildOptions, Builder};
use model::Kind;
use secrets::{Format, Keyring, Lifetimes, References, Sealing, Secrets};
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEY: &str = "0123456789abcdef";

fn sealing() -> Arc<Sealing> {
    let keyring = Keyring::new(&[KEY.to_owned()], Format::Aead).expect("a key");
    let fields = [("alpha".into(), vec!["text".into(), "forbid".into()]), ("beta".into(), Vec::new())];
    Arc::new(Sealing::new(keyring, true, fields))
}

fn gateway() -> Gateway {
    let mut gateway = Gateway::new();
    let lifetimes = Lifetimes { value: Duration::from_millis(5), failure: Duration::from_millis(5) };
    let secrets = Secrets::new(sealing(), References::new(lifetimes), Vec::new());
    let builder = Builder::new(Arc::clone(&gateway.registry), BuildOptions::default());
    gateway.builder = builder.with_secrets(Arc::new(secrets));
    gateway
}

fn sealed(kind: Kind, id: &str, mut resource: Value) -> Value {
    let fields: &mut Map<String, Value> = resource.as_object_mut().expect("an object");
    sealing().seal(kind, id, fields);
    resource
}

fn route(text: &str) -> Value {
    json!({"uri": "/a", "plugins": {"alpha": {"text": text}}})
}

/// A Vault whose every secret has the field `f` with what the test says.
fn vault(value: &Arc<Mutex<&'static str>>) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let value = Arc::clone(value);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                match stream.read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    _ => break,
                }
            }
            let body = json!({"data": {"f": *value.lock().expect("no panic")}}).to_string();
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    json!({"uri": format!("http://{address}"), "prefix": "kv", "token": "root"})
}

#[test]
fn plugins_get_what_was_encrypted_and_what_the_environment_holds() {
    let mut gateway = gateway();
    let stored = sealed(Kind::Route, "1", route("hidden"));
    assert_ne!(stored, route("hidden"));
    gateway.put("/routes/1", &stored);
    assert_eq!(trace(&gateway.route("/a").chain), ["hidden@/routes/1!"]);
    // The same text encrypted again is the same configuration.
    let compiled = gateway.compiled();
    gateway.put("/routes/1", &sealed(Kind::Route, "1", route("hidden")));
    assert_eq!(gateway.compiled(), compiled);

    gateway.put("/plugin_metadata/alpha", &sealed(Kind::PluginMetadata, "alpha", json!({"forbid": "x"})));
    assert_eq!(trace(&gateway.route("/a").chain), ["hidden@/routes/1!x"]);

    let path = std::env::var("PATH").expect("cargo needs it");
    gateway.put("/routes/1", &route("$env://PATH"));
    assert_eq!(trace(&gateway.route("/a").chain), [format!("{path}@/routes/1!x")]);
    gateway.put("/routes/1", &route("$ENV://NO_SUCH_VARIABLE"));
    assert_eq!(trace(&gateway.route("/a").chain), ["$ENV://NO_SUCH_VARIABLE@/routes/1!x"]);
}

#[test]
fn a_secret_that_changes_renews_what_refers_to_it_and_nothing_else() {
    let value = Arc::new(Mutex::new("one"));
    let (manager, mut gateway) = (vault(&value), gateway());
    let other = json!({"uri": "/b", "plugins": {"beta": {"text": "plain"}}});
    gateway.apply(&[
        put("/routes/1", &route("$secret://vault/v/s/f")),
        put("/routes/2", &other),
        // Its key sorts behind the route's: it is taken in first all the same.
        put("/secrets/vault/v", &sealed(Kind::Secret, "vault/v", manager)),
    ]);
    assert_eq!(trace(&gateway.route("/a").chain), ["one@/routes/1!"]);
    let linked = gateway.builder.routes_linked();
    *value.lock().expect("no panic") = "two";
    let secrets = Arc::clone(gateway.builder.secrets().expect("given"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(secrets.references().changed());
    gateway.snapshot = gateway.builder.renew_references(7).expect("a route refers to it");
    assert_eq!((gateway.snapshot.revision, gateway.builder.routes_linked()), (7, linked + 1));
    assert_eq!(trace(&gateway.route("/a").chain), ["two@/routes/1!"]);

    gateway.delete("/routes/1");
    *value.lock().expect("no panic") = "three";
    assert!(gateway.builder.renew_references(8).is_none(), "nobody refers to it any more");
    gateway.apply(&[delete("/secrets/vault/v"), put("/routes/1", &route("$secret://vault/v/s/f"))]);
    assert_eq!(trace(&gateway.route("/a").chain), ["$secret://vault/v/s/f@/routes/1!"]);
}

#[test]
fn a_manager_that_is_gone_after_a_gap_is_forgotten() {
    let value = Arc::new(Mutex::new("one"));
    let (manager, mut gateway) = (vault(&value), gateway());
    let resources = [("/routes/1", route("$secret://vault/v/s/f")), ("/secrets/vault/v", manager)];
    gateway.load(&resources);
    assert_eq!(trace(&gateway.route("/a").chain), ["one@/routes/1!"]);
    gateway.snapshot = gateway.builder.load(9, &[entry("/routes/1", &resources[0].1.to_string())]);
    if let Some(snapshot) = gateway.builder.renew_references(9) {
        gateway.snapshot = snapshot;
    }
    assert_eq!(trace(&gateway.route("/a").chain), ["$secret://vault/v/s/f@/routes/1!"]);
}
