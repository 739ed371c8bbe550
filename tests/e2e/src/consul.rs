//! What the gateway asks of a Consul server, in Consul's shapes: a stand-in, since Consul itself is in no Debian archive.
//! Its long polls wait as Consul's do.

use crate::{Message, Upstream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The longest that a poll waits, whatever it asks for: a test's gateway is to end soon.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A stand-in for a Consul server.
#[derive(Debug)]
pub struct Consul {
    server: Upstream,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Debug)]
struct Known {
    index: u64,
    /// By service: the ports of its instances on this machine.
    services: BTreeMap<String, Vec<u16>>,
    broken: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self { index: 1, services: BTreeMap::from([("consul".to_owned(), vec![8300])]), broken: false }
    }
}

impl Consul {
    /// Starts one that knows nothing but itself.
    pub fn start() -> Self {
        let state = Arc::new(State::default());
        let told = Arc::clone(&state);
        Self { server: Upstream::answering(move |request| told.answer(request)), state }
    }

    /// Its address, as `discovery.consul.servers` wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Has a service be healthy at these ports of this machine; at none it is gone.
    pub fn set(&self, service: &str, ports: &[u16]) {
        self.change(|known| {
            match ports.is_empty() {
                true => known.services.remove(service),
                false => known.services.insert(service.to_owned(), ports.to_vec()),
            };
        });
    }

    /// Whether every answer is an error.
    pub fn break_down(&self, broken: bool) {
        self.change(|known| known.broken = broken);
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.state.known.lock().unwrap();
        change(&mut known);
        known.index += 1;
        self.state.changed.notify_all();
    }
}

impl State {
    fn answer(&self, request: &Message) -> Vec<u8> {
        let target = request.start.split(' ').nth(1).unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let index = query.split('&').find_map(|part| part.strip_prefix("index=")?.parse::<u64>().ok());
        let known = self.known.lock().unwrap();
        let seen = index.unwrap_or(0);
        let unchanged = |known: &mut Known| seen > 0 && known.index <= seen;
        let (known, _) = self.changed.wait_timeout_while(known, WAIT_MAX, unchanged).unwrap();
        if known.broken {
            return b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec();
        }
        let body = match path.strip_prefix("/v1/") {
            Some("catalog/services") => {
                known.services.keys().map(|name| (name.clone(), json!([]))).collect::<Value>()
            }
            Some("health/state/any") => json!([]),
            Some(path) if let Some(name) = path.strip_prefix("health/service/") => {
                let name = name.replace("%2D", "-").replace("%5F", "_");
                let instance = |port: &u16| {
                    json!({
                        "Node": { "Node": "node", "Address": "127.0.0.1" },
                        "Service": { "Service": name, "Address": "127.0.0.1", "Port": port, "Meta": null },
                        "Checks": [],
                    })
                };
                known.services.get(&name).into_iter().flatten().map(instance).collect()
            }
            _ => return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        };
        let (body, index) = (body.to_string(), known.index);
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nX-Consul-Index: {index}\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    }
}
