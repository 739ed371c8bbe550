//! A name server that says what a test tells it to.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const A: u16 = 1;
const SRV: u16 = 33;

/// How often the server looks whether it is still needed.
const LOOK: Duration = Duration::from_millis(50);

/// A name server on a UDP port of its own. What it isn't told of doesn't exist.
#[derive(Debug)]
pub struct Dns {
    /// Its port.
    pub port: u16,
    zone: Arc<Zone>,
}

/// The TTL of records and the data of each.
type Records = (u32, Vec<Vec<u8>>);

#[derive(Debug, Default)]
struct Zone {
    /// By name and type.
    records: Mutex<HashMap<(String, u16), Records>>,
    questions: AtomicUsize,
    silent: AtomicBool,
    over: AtomicBool,
}

impl Dns {
    /// Starts one that knows nothing.
    pub fn start() -> Self {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        socket.set_read_timeout(Some(LOOK)).unwrap();
        let (port, zone) = (socket.local_addr().unwrap().port(), Arc::new(Zone::default()));
        let told = Arc::clone(&zone);
        std::thread::spawn(move || {
            let mut question = [0; 1024];
            while !told.over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
                told.questions.fetch_add(1, Ordering::Relaxed);
                if !told.silent.load(Ordering::Relaxed) {
                    // Who asks may be gone.
                    let _ = socket.send_to(&told.answer(&question[..length]), from);
                }
            }
        });
        Self { port, zone }
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Has `name` be at these addresses, for this many seconds.
    pub fn set(&self, name: &str, addresses: &[&str], ttl: u32) {
        let data = addresses.iter().map(|ip| ip.parse::<Ipv4Addr>().unwrap().octets().to_vec());
        self.keep(name, A, ttl, data.collect());
    }

    /// Has `name` be these services: priority, weight, port, target.
    pub fn set_services(&self, name: &str, services: &[(u16, u16, u16, &str)], ttl: u32) {
        let data = services.iter().map(|(priority, weight, port, target)| {
            let mut data: Vec<u8> = [priority, weight, port].iter().flat_map(|n| n.to_be_bytes()).collect();
            for label in target.split('.') {
                data.push(label.len() as u8);
                data.extend_from_slice(label.as_bytes());
            }
            data.push(0);
            data
        });
        self.keep(name, SRV, ttl, data.collect());
    }

    /// Has `name` not exist.
    pub fn forget(&self, name: &str) {
        self.zone.records.lock().unwrap().retain(|(known, _), _| known != name);
    }

    /// Whether it says nothing at all.
    pub fn silence(&self, silent: bool) {
        self.zone.silent.store(silent, Ordering::Relaxed);
    }

    /// How often it was asked.
    pub fn questions(&self) -> usize {
        self.zone.questions.load(Ordering::Relaxed)
    }

    fn keep(&self, name: &str, kind: u16, ttl: u32, data: Vec<Vec<u8>>) {
        self.zone.records.lock().unwrap().insert((name.to_owned(), kind), (ttl, data));
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.zone.over.store(true, Ordering::Relaxed);
    }
}

impl Zone {
    /// RFC 1035 section 4: head, the question as it came, the records with a pointer to its name.
    fn answer(&self, asked: &[u8]) -> Vec<u8> {
        let (mut at, mut labels) = (12, Vec::new());
        while asked[at] != 0 {
            let end = at + 1 + usize::from(asked[at]);
            labels.push(String::from_utf8_lossy(&asked[at + 1..end]).to_lowercase());
            at = end;
        }
        let (name, end) = (labels.join("."), at + 5);
        let kind = u16::from_be_bytes([asked[at + 1], asked[at + 2]]);
        let records = self.records.lock().unwrap();
        let exists = records.keys().any(|(known, _)| *known == name);
        let (ttl, data) = records.get(&(name, kind)).cloned().unwrap_or_default();
        let flags: u16 = if exists { 0x8180 } else { 0x8183 };
        let mut answer = asked[..2].to_vec();
        for number in [flags, 1, data.len() as u16, 0, 0] {
            answer.extend_from_slice(&number.to_be_bytes());
        }
        answer.extend_from_slice(&asked[12..end]);
        for data in data {
            answer.extend_from_slice(&[0xc0, 12]);
            answer.extend_from_slice(&kind.to_be_bytes());
            answer.extend_from_slice(&1_u16.to_be_bytes());
            answer.extend_from_slice(&ttl.to_be_bytes());
            answer.extend_from_slice(&(data.len() as u16).to_be_bytes());
            answer.extend_from_slice(&data);
        }
        answer
    }
}
