//! What plugins have running beside exchanges, from the first snapshot to the last worker.

use super::fault;
use super::fixture::{Control, config};
use crate::EngineConfig;
use plugin::{
    Background, CompileContext, Exchange, Flow, Hooks, Lifecycle, OnAccess, Place, PluginDef, Registry,
    Reply, Shared,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long something may take that is expected.
const PATIENCE: Duration = Duration::from_secs(30);

/// What plugins did, as lines.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Log {
    fn say(&self, line: String) {
        self.lines.lock().expect("no panic").push(line);
        self.more.notify_all();
    }

    /// Waits until these lines were said since the last time, as often each, and no others. Frees old snapshots
    /// meanwhile, as their builder does.
    fn expect(&self, control: &Control, expected: &[(&str, usize)]) {
        let expected: BTreeMap<&str, usize> = expected.iter().copied().collect();
        let all: usize = expected.values().sum();
        let until = Instant::now() + PATIENCE;
        let mut lines = self.lines.lock().expect("no panic");
        while lines.len() < all && Instant::now() < until {
            lines = self.more.wait_timeout(lines, Duration::from_millis(20)).expect("no panic").0;
            control.published.sweep();
        }
        let mut said = BTreeMap::new();
        lines.iter().for_each(|line| *said.entry(line.as_str()).or_insert(0) += 1);
        assert_eq!(said, expected);
        lines.clear();
    }
}

/// Says something when it is dropped.
struct Ended(Arc<Log>, String);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.say(std::mem::take(&mut self.1));
    }
}

/// A plugin that says what it does, and holds requests until they may go on.
#[derive(Clone, Default)]
struct Noting {
    log: Arc<Log>,
    released: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl OnAccess for Noting {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.log.say("asked".to_owned());
        let (released, services) = (Arc::clone(&self.released), Rc::clone(exchange.services));
        let wait = async move {
            while !released.load(Ordering::Acquire) {
                services.sleep(Duration::from_millis(10)).await;
            }
        };
        Flow::wait(wait, |(), _| Flow::reply(Reply::text(200, "done")))
    }
}

impl Noting {
    /// The registry with the plugin in this version, and others in theirs.
    fn registry(&self, plugins: &[(&'static str, u64)]) -> Arc<Registry> {
        let def = |(name, version): &(&'static str, u64)| {
            let plugin = self.clone();
            let compile = move |config: Value, _: &CompileContext<'_>| Ok(plugin.hooks(&config));
            let mut def = PluginDef::of(*name, 1, json!({"type": "object"}), compile);
            def.version = *version;
            let say = |what: &str| {
                let (log, line) = (Arc::clone(&self.log), format!("{what} {name} {version}"));
                Box::new(move |_: plugin::WorkerContext<'_>| log.say(line.clone()))
            };
            def.lifecycle = Lifecycle {
                worker_start: Some(say("up")),
                worker_stop: Some(say("down")),
                ..Lifecycle::default()
            };
            def
        };
        let mut registry = Registry::new(plugins.iter().map(def), Map::new()).expect("valid schemas");
        registry.shared = Arc::clone(&self.shared);
        Arc::new(registry)
    }

    fn hooks(&self, config: &Value) -> Hooks {
        let name = config["name"].as_str().unwrap_or_default().to_owned();
        let task = |place, how: &'static str| {
            let (log, name) = (Arc::clone(&self.log), name.clone());
            Background::new("noting", place, move |services| {
                log.say(format!("begin {how} {name}"));
                let ended = Ended(Arc::clone(&log), format!("end {how} {name}"));
                Box::pin(async move {
                    let _ended = ended;
                    loop {
                        services.sleep(Duration::from_secs(1)).await;
                    }
                })
            })
        };
        Hooks {
            access: Some(Arc::new(self.clone())),
            background: vec![task(Place::EachWorker, "each"), task(Place::Process, "once")],
            ..Hooks::default()
        }
    }
}

fn route(name: &str) -> Value {
    json!({ "uri": format!("/{name}"), "plugins": { "noting": { "name": name } } })
}

/// Asks for `path`: the connection on which the answer comes.
fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("listened on");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

#[test]
fn background_tasks_live_as_long_as_their_configuration() {
    let noting = Noting::default();
    let mut control = Control::new(noting.registry(&[("noting", 1)]));
    control.put("/routes/1", &route("a"));
    let (engine, _) = control.serve(EngineConfig { workers: 2, ..config() });
    noting.log.expect(&control, &[("up noting 1", 2), ("begin each a", 2), ("begin once a", 1)]);
    // A change elsewhere leaves it alone.
    control.put("/routes/2", &route("b"));
    noting.log.expect(&control, &[("begin each b", 2), ("begin once b", 1)]);
    control.put("/routes/1", &route("c"));
    let changed = [("end each a", 2), ("end once a", 1), ("begin each c", 2), ("begin once c", 1)];
    noting.log.expect(&control, &changed);
    // So does a reload that changes nothing about the plugin.
    control.renew(noting.registry(&[("noting", 1), ("other", 1)]));
    control.put("/global_rules/1", &json!({ "plugins": { "noting": { "name": "d" } } }));
    noting.log.expect(&control, &[("up other 1", 2), ("begin each d", 2), ("begin once d", 1)]);
    // What is switched off runs nothing.
    let mut off = route("e");
    off["status"] = json!(0);
    control.put("/routes/3", &off);
    off = route("f");
    off["plugins"]["noting"]["_meta"] = json!({ "disable": true });
    control.put("/routes/4", &off);
    control.put("/services/1", &json!({ "plugins": { "noting": { "name": "g" } } }));
    noting.log.expect(&control, &[("begin each g", 2), ("begin once g", 1)]);
    for (key, name) in [("/routes/1", "c"), ("/routes/2", "b"), ("/services/1", "g")] {
        control.delete(key);
        noting.log.expect(&control, &[(&*format!("end each {name}"), 2), (&*format!("end once {name}"), 1)]);
    }
    // Other code behind the name is another plugin.
    control.renew(noting.registry(&[("noting", 2)]));
    let renewed = [("up noting 2", 2), ("begin each d", 2), ("begin once d", 1)];
    let gone = [("end each d", 2), ("end once d", 1), ("down noting 1", 2), ("down other 1", 2)];
    noting.log.expect(&control, &[&renewed[..], &gone[..]].concat());
    engine.stop();
    noting.log.expect(&control, &[("end each d", 2), ("end once d", 1), ("down noting 2", 2)]);
}

#[test]
fn a_configuration_ends_with_its_last_exchange() {
    let noting = Noting::default();
    let mut control = Control::new(noting.registry(&[("noting", 1)]));
    control.put("/routes/1", &route("a"));
    let (engine, address) = control.serve(config());
    noting.log.expect(&control, &[("up noting 1", 1), ("begin each a", 1), ("begin once a", 1)]);
    let mut asking = ask(address, "/a");
    noting.log.expect(&control, &[("asked", 1)]);
    control.renew(noting.registry(&[("noting", 2)]));
    noting.log.expect(&control, &[("up noting 2", 1), ("begin each a", 1), ("begin once a", 1)]);
    control.delete("/routes/1");
    // Those of the other code: the exchange goes on under the one that it began with.
    noting.log.expect(&control, &[("end each a", 1), ("end once a", 1)]);
    control.put("/routes/2", &route("b"));
    noting.log.expect(&control, &[("begin each b", 1), ("begin once b", 1)]);
    noting.released.store(true, Ordering::Release);
    let mut answer = String::new();
    asking.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    noting.log.expect(&control, &[("end each a", 1), ("end once a", 1), ("down noting 1", 1)]);
    engine.drain(PATIENCE);
    noting.log.expect(&control, &[("end each b", 1), ("end once b", 1), ("down noting 2", 1)]);
}

#[test]
fn a_worker_that_replaces_one_starts_its_plugins() {
    let noting = Noting::default();
    let mut control = Control::new(noting.registry(&[("noting", 1)]));
    control.put("/routes/1", &route("a"));
    let (engine, _) = control.serve(EngineConfig { server: "replaces".to_owned(), ..config() });
    let begun = [("up noting 1", 1), ("begin each a", 1), ("begin once a", 1)];
    noting.log.expect(&control, &begun);
    fault::arm("replaces");
    let ended = [("end each a", 1), ("end once a", 1)];
    noting.log.expect(&control, &[&ended[..], &begun[..]].concat());
    engine.stop();
    noting.log.expect(&control, &[&ended[..], &[("down noting 1", 1)]].concat());
}
