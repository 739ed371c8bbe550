//! HTTP/2 clients that ask for too much, frame by frame: each loses its connection, is told why and counted, and others
//! are served meanwhile.

use e2e::{Gateway, Http2Client, Peer, asynchronously, eventually};
use serde_json::json;

/// Frames (RFC 9113 section 6), and flags of HEADERS.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

const ENHANCE_YOUR_CALM: u32 = 11;

/// `GET /file` for `http://a`, as HPACK from its static table.
const REQUEST: &[u8] = b"\x82\x86\x04\x05/file\x41\x01a";

/// A client that writes its frames itself.
struct Attacker {
    peer: Peer,
    /// The reason that a GOAWAY gave.
    reason: Option<u32>,
}

impl Attacker {
    fn connect(gateway: &Gateway, settings: &[u8]) -> Self {
        let mut peer = gateway.connect();
        peer.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        peer.send(frame(SETTINGS, 0, 0, settings));
        Self { peer, reason: None }
    }

    /// Sends frames, for as long as the other side listens.
    fn send(&mut self, frames: &[Vec<u8>]) {
        let _ = self.peer.try_send(&frames.concat());
    }

    /// Reads one frame: its kind, stream and payload; none at the end.
    fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        while self.peer.unused().len() < 9 {
            if !self.peer.fill().unwrap_or(false) {
                return None;
            }
        }
        let head = self.peer.bytes(9);
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = self.peer.bytes(length);
        if head[3] == GOAWAY {
            self.reason = Some(number(&payload[4..8]));
        }
        Some((head[3], number(&head[5..9]), payload))
    }

    /// Reads until the connection ends: why, if that was said.
    fn end(&mut self) -> Option<u32> {
        while self.frame().is_some() {}
        self.reason
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, REQUEST)
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// A client's streams in order: 1, 3, 5 and so on.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|n| 2 * n + 1)
}

/// A gateway with one file.
fn gateway() -> Gateway {
    let gateway = Gateway::start();
    let root = gateway.dir().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("file"), "x".repeat(1000)).unwrap();
    gateway.put("routes/1", &json!({ "uri": "/*", "static": { "root": root } }));
    eventually("the route is in use", || (gateway.get("/file").status() == 200).then_some(()));
    gateway
}

/// Lets `attack` run beside a client that is served before, meanwhile and afterwards. The attacker's connection has to end,
/// and to be counted with the reason.
fn withstands(attack: impl FnOnce(&mut Attacker), settings: &[u8]) {
    let gateway = gateway();
    asynchronously(async {
        let mut other = Http2Client::connect(gateway.port).await;
        assert_eq!(other.get("/file").await.0, 200);
        let mut attacker = Attacker::connect(&gateway, settings);
        attack(&mut attacker);
        assert_eq!(other.get("/file").await.0, 200);
        // Who still sends when the connection is closed gets a reset, and may lose the last word by it; the count stays.
        assert!(matches!(attacker.end(), None | Some(ENHANCE_YOUR_CALM)));
        assert_eq!(other.get("/file").await.0, 200);
    });
    let counted = "apisix_http2_connections_refused_total{reason=\"enhance_your_calm\"} 1";
    eventually("it is counted", || gateway.metrics().contains(counted).then_some(()));
    assert_eq!(gateway.get("/file").status(), 200);
}

/// CVE-2023-44487, as it was seen: requests and resets in one stream of bytes.
#[test]
fn requests_that_are_taken_back_at_once() {
    let attack = |attacker: &mut Attacker| {
        for stream in streams(2000) {
            attacker.send(&[request(stream), reset(stream)]);
        }
    };
    withstands(attack, &[]);
}

/// The same by a client that waits until each request has begun to cost something.
#[test]
fn requests_that_are_taken_back_once_they_are_answered() {
    let attack = |attacker: &mut Attacker| {
        for stream in streams(2000) {
            attacker.send(&[request(stream)]);
            loop {
                match attacker.frame() {
                    Some((HEADERS, of, _)) if of == stream => break,
                    Some(_) => {}
                    None => return,
                }
            }
            attacker.send(&[reset(stream)]);
        }
    };
    // INITIAL_WINDOW_SIZE is 0: no body is ever sent whole.
    withstands(attack, &[0, 4, 0, 0, 0, 0]);
}

/// CVE-2025-8671: the gateway is made to reset the streams itself, here by windows that grow too large.
#[test]
fn requests_that_are_spoilt() {
    let attack = |attacker: &mut Attacker| {
        for stream in streams(2000) {
            attacker.send(&[request(stream), frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])]);
        }
    };
    withstands(attack, &[0, 4, 0, 0, 0, 0]);
}

/// CVE-2024-27316 and its like: HEADERS, and CONTINUATION after CONTINUATION.
#[test]
fn heads_without_end() {
    // A literal field without indexing: name "a", value of 100 bytes.
    let field = [&b"\0\x01a\x64"[..], &[b'b'; 100]].concat();
    for size in [0, 1, 100] {
        let attack = |attacker: &mut Attacker| {
            attacker.send(&[frame(HEADERS, END_STREAM, 1, REQUEST)]);
            let piece = frame(CONTINUATION, 0, 1, &field.repeat(size));
            for _ in 0..200 {
                attacker.send(&vec![piece.clone(); 10]);
            }
        };
        withstands(attack, &[]);
    }
}

/// A field of 3 kB is put into the table once, and then named 12,000 times by one byte each: 36 MB in a frame of 15 kB.
#[test]
fn heads_that_unpack_to_much_more() {
    let field = [&b"\x40\x01a\x7f\xb9\x16"[..], &[b'x'; 3000]].concat();
    let bomb = frame(HEADERS, END_STREAM | END_HEADERS, 1, &[REQUEST, &field, &[0xbe; 12_000]].concat());
    withstands(|attacker| attacker.send(&[bomb]), &[]);
}

/// CVE-2019-9512, CVE-2019-9515 and their like: frames that are answered or ignored, and bring no request forward.
#[test]
fn frames_that_ask_for_nothing() {
    let opened = frame(HEADERS, END_HEADERS, 1, REQUEST);
    for (name, first, piece) in [
        ("SETTINGS", &[][..], frame(SETTINGS, 0, 0, &[])),
        ("PING", &[], frame(PING, 0, 0, &[0; 8])),
        ("PRIORITY", &[], frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 9])),
        ("WINDOW_UPDATE", &[], frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("unknown", &[], frame(0xfa, 0, 0, b"grease")),
        ("empty DATA", &opened, frame(DATA, 0, 1, &[])),
    ] {
        let attack = |attacker: &mut Attacker| {
            attacker.send(&[first.to_vec()]);
            for _ in 0..40 {
                attacker.send(&vec![piece.clone(); 50]);
            }
        };
        eprintln!("{name}");
        withstands(attack, &[]);
    }
}

/// CVE-2019-9517: much is asked for, all windows are open, and nothing is read. What waits is bounded by streams and
/// buffers: 100 of each with 168 KiB, 17 MB.
#[test]
fn answers_that_nobody_reads() {
    let mut gateway = gateway();
    let large = std::fs::File::create(gateway.dir().join("root/large")).unwrap();
    large.set_len(64 << 20).unwrap();
    let port = gateway.port;
    let memory = |gateway: &mut Gateway| gateway.process().memory_kb("VmRSS");
    asynchronously(async {
        let mut other = Http2Client::connect(port).await;
        assert_eq!(other.get("/file").await.0, 200);
        let before = memory(&mut gateway);
        let mut attacker = Attacker::connect(&gateway, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
        attacker.send(&[frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0, 0])]);
        let path = b"\x82\x86\x04\x06/large\x41\x01a";
        for stream in streams(100) {
            attacker.send(&[frame(HEADERS, END_STREAM | END_HEADERS, stream, path)]);
        }
        for _ in 0..200 {
            assert_eq!(other.get("/file").await.0, 200);
        }
        let grown = memory(&mut gateway).saturating_sub(before);
        assert!(grown < 32_000, "{grown} kB more");
        drop(attacker);
        assert_eq!(other.get("/file").await.0, 200);
    });
}
