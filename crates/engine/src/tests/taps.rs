//! Taps on both bodies, and receivers that take nothing of a body that passes a filter.

use super::filters::{CHUNKED, DONE, GET, PATIENCE, POST, client, until};
use super::fixture::{engine, peer};
use plugin::{Awaited, BodyFilter, Exchange, Flow, Hooks, OnAccess, OnResponse, Recorder, UpstreamResponse};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Notes what passes.
struct Tap(Arc<Mutex<String>>);

impl Recorder for Tap {
    fn piece(&mut self, piece: &[u8]) {
        self.0.lock().expect("no panic").push_str(&String::from_utf8_lossy(piece));
    }

    fn finish(self: Box<Self>) {
        self.0.lock().expect("no panic").push('.');
    }
}

/// Two taps on each body, notes of which are the fields.
#[derive(Default, Clone)]
struct Taps {
    request: [Arc<Mutex<String>>; 2],
    response: [Arc<Mutex<String>>; 2],
}

impl OnAccess for Taps {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let filters = &mut exchange.extras().request_filters;
        self.request.iter().for_each(|note| filters.tap(Box::new(Tap(Arc::clone(note)))));
        Flow::Next
    }
}

impl OnResponse for Taps {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        let filters = &mut exchange.extras().body_filters;
        self.response.iter().for_each(|note| filters.tap(Box::new(Tap(Arc::clone(note)))));
    }
}

#[test]
fn several_taps_see_both_bodies_and_change_no_framing() {
    let (node, taps) = (peer(), Taps::default());
    let hooks = taps.clone();
    let served = engine(&[node.address], move || Hooks {
        access: Some(Arc::new(hooks.clone())),
        response: Some(Arc::new(hooks.clone())),
        ..Hooks::default()
    });
    let mut client = client(&served, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nhal");
    node.expect("hal");
    client.write_all(b"ves").expect("sent");
    node.expect("ves");
    node.say(DONE.replace("done", "do"));
    let head = until(&mut client, "\r\n\r\n").expect("a head");
    assert!(head.contains("\r\nContent-Length: 4\r\n"), "{head}");
    until(&mut client, "do").expect("half a body");
    node.say("ne");
    until(&mut client, "ne").expect("a body");
    let noted = |note: &Arc<Mutex<String>>| note.lock().expect("no panic").clone();
    assert_eq!(taps.request.each_ref().map(noted), ["halves.", "halves."]);
    assert_eq!(taps.response.each_ref().map(noted), ["done.", "done."]);
}

/// A filter of both bodies that waits a little for each piece.
struct Slow;

impl Slow {
    fn filter() -> impl BodyFilter {
        Awaited::new(|_, piece: Vec<u8>| async move {
            tokio::task::yield_now().await;
            Ok(piece)
        })
    }
}

impl OnAccess for Slow {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        exchange.extras().request_filters.push(Self::filter());
        Flow::Next
    }
}

impl OnResponse for Slow {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        exchange.extras().body_filters.push(Self::filter());
    }
}

/// Bytes of a body that is sent to somebody who reads nothing, and those of them that may be under way: what the kernel
/// keeps in four socket buffers, of at most 6 MiB each by its defaults.
const MUCH: u64 = 64 << 20;
const UNDER_WAY: u64 = 32 << 20;

/// Writes chunks until they are `MUCH` bytes, counting.
fn write_much(mut stream: TcpStream, written: &AtomicU64) {
    let piece = [b"10000\r\n", &[b'x'; 1 << 16][..], b"\r\n"].concat();
    while written.load(Ordering::Acquire) < MUCH {
        stream.write_all(&piece).expect("sent");
        written.fetch_add(1 << 16, Ordering::AcqRel);
    }
    stream.write_all(b"0\r\n\r\n").expect("sent");
    sleep(PATIENCE);
}

/// Waits until nothing more is written, and then reads all of it.
fn assert_held_back(written: &AtomicU64, mut receiver: TcpStream) {
    let (mut seen, until) = (0, Instant::now() + PATIENCE);
    loop {
        sleep(Duration::from_millis(300));
        let now = written.load(Ordering::Acquire);
        if now == seen && now > 0 {
            break;
        }
        assert!(Instant::now() < until, "it goes on and on");
        seen = now;
    }
    assert!(seen < UNDER_WAY, "{seen} bytes were taken that nobody reads");
    let (mut read, mut buffer) = (0, vec![0; 1 << 16]);
    let mut tail = Vec::new();
    while !tail.ends_with(b"\r\n0\r\n\r\n") {
        let count = receiver.read(&mut buffer).expect("all of it");
        assert!(count > 0, "all of it");
        read += count as u64;
        tail.extend_from_slice(&buffer[..count]);
        tail.drain(..tail.len().saturating_sub(7));
    }
    assert!(read > MUCH, "{read}");
}

#[test]
fn a_receiver_that_takes_nothing_holds_the_sender_back() {
    let serve = || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let served = engine(&[listener.local_addr().expect("bound")], || Hooks {
            access: Some(Arc::new(Slow)),
            response: Some(Arc::new(Slow)),
            ..Hooks::default()
        });
        (served, listener)
    };
    let (served, listener) = serve();
    let written = Arc::<AtomicU64>::default();
    let receiver = client(&served, GET);
    let (mut node, _) = listener.accept().expect("asked");
    until(&mut node, "\r\n\r\n").expect("a request");
    let count = Arc::clone(&written);
    spawn(move || {
        node.write_all(CHUNKED.as_bytes()).expect("sent");
        write_much(node, &count);
    });
    assert_held_back(&written, receiver);
    let (served, listener) = serve();
    let written = Arc::<AtomicU64>::default();
    let sender = client(&served, POST);
    let count = Arc::clone(&written);
    spawn(move || write_much(sender, &count));
    let (node, _) = listener.accept().expect("asked");
    assert_held_back(&written, node);
}
