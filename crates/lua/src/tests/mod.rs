//! Plugins and functions, run on exchanges of the test kit.

mod functions;
mod limits;
mod plugins;

use crate::{Host, LuaSettings};
use plugin::testkit::{self, Bench};
use plugin::{Chain, Exchange, Registry, Reply};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Settings of a test: code in resources is run.
fn settings() -> LuaSettings {
    LuaSettings { allow_code: true, ..LuaSettings::default() }
}

/// The registry of a host's plugins.
fn registry(settings: LuaSettings) -> Registry {
    let host = Host::new(settings, None);
    let plugins = host.plugins(None).expect("modules that can be loaded");
    Registry::new(plugins, Map::new()).expect("valid schemas")
}

/// Settings with a folder of plugins, each a name and a text.
fn folder(plugins: &[(&str, &str)]) -> (tempfile::TempDir, LuaSettings) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), plugins);
    let settings = LuaSettings { folder: Some(folder.path().to_owned()), ..settings() };
    (folder, settings)
}

fn write(folder: &Path, plugins: &[(&str, &str)]) {
    for (name, text) in plugins {
        std::fs::write(folder.join(format!("{name}.lua")), text).expect("written");
    }
}

/// The chain of functions in the phase.
fn functions(phase: &str, body: &str) -> Chain {
    let function = format!("return function(conf, ctx)\n{body}\nend");
    let config = json!({"serverless-pre-function": {"phase": phase, "functions": [function]}});
    testkit::chain(&registry(settings()), &config).expect("a valid configuration")
}

/// What a function in the access phase answers to a request.
fn answer(request: &str, body: &str) -> Option<Reply> {
    let bench = Bench::new(request);
    let mut exchange = bench.exchange();
    testkit::request(&functions("access", body), &mut exchange)
}

fn text(reply: Option<Reply>) -> String {
    let reply = reply.expect("an answer");
    format!("{} {}", reply.status, String::from_utf8_lossy(&reply.body.unwrap_or_default()))
}

/// The fields that the request is changed by.
fn request_lines(exchange: &Exchange<'_>) -> String {
    exchange.request.edits.as_ref().map(|edits| testkit::lines(&edits.headers)).unwrap_or_default()
}

fn errors(registry: &Registry, plugins: &Value) -> Vec<String> {
    let errors = registry.check(plugins.as_object().expect("an object"));
    errors.into_iter().map(|error| format!("{}: {}", error.path, error.message)).collect()
}
