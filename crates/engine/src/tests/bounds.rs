//! Bounds on what waits, and on what is held.

use super::fixture::{Control, config, engine, node};
use crate::config::{Mount, MountHandler, MountRequest};
use bytes::Bytes;
use plugin::{
    Answer, BodySource, Exchange, Fields, Flow, HeldBytes, Hooks, OnAccess, REQUEST_BYTES_MAX, Registry,
    Reply,
};
use std::cell::RefCell;
use std::future::{Future, pending};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Answers nothing; says nothing about that either.
struct Silent;

impl MountHandler for Silent {
    fn handle(&self, _: MountRequest) -> Pin<Box<dyn Future<Output = Reply> + Send>> {
        Box::pin(pending())
    }
}

#[test]
fn an_api_that_does_not_answer_is_waited_for_in_vain_for_a_bounded_time() {
    let control = Control::new(Arc::new(Registry::default()));
    let mount = Mount {
        prefix: "/api".to_owned(),
        loopback_only: true,
        max_body_bytes: 100,
        handler: Arc::new(Silent),
    };
    let (engine, address) = control.serve(crate::EngineConfig { mount: Some(mount), ..config() });
    let mut stream = TcpStream::connect(address).expect("listened on");
    stream.write_all(b"GET /api HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("did not answer in time"), "{answer}");
    engine.stop();
}

/// A body with one piece, and never a second.
struct Halting(Option<Bytes>);

impl BodySource for Halting {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.0.take().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(piece))))
    }
}

struct Answers;

impl OnAccess for Answers {
    fn access(&self, _: &mut Exchange<'_>) -> Flow {
        let body = Box::new(Halting(Some(Bytes::from_static(b"begun"))));
        Flow::Answer(Box::new(Answer { status: 200, fields: Fields::default(), body }))
    }
}

#[test]
fn a_streamed_answer_that_halts_is_broken_off() {
    let served = engine(&[node(|_| None)], || Hooks { access: Some(Arc::new(Answers)), ..Hooks::default() });
    let answer = served.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\n5\r\nbegun\r\n"), "{answer}");
}

thread_local! {
    /// What the worker holds for the test.
    static HELD: RefCell<HeldBytes> = RefCell::new(HeldBytes::of_request());
}

/// Reads bodies; `X-Free` says how much of the worker's room is to be free.
struct Reads;

impl OnAccess for Reads {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let free =
            exchange.request.header(b"x-free").and_then(|free| std::str::from_utf8(free).ok()?.parse().ok());
        if let Some(free) = free {
            HELD.with_borrow_mut(|held| held.set(REQUEST_BYTES_MAX - usize::min(free, REQUEST_BYTES_MAX)))
                .expect("there is room");
            return Flow::reply(Reply::text(200, "held"));
        }
        match exchange.request.whole_body(1 << 20) {
            plugin::WholeBody::Unread => Flow::Body(1 << 20),
            _ => Flow::Next,
        }
    }
}

#[test]
fn a_worker_that_holds_too_much_of_bodies_refuses_further_ones() {
    let upstream = node(|request| Some(if request.ends_with("text") { "good" } else { "bad" }));
    let served = engine(&[upstream], || Hooks { access: Some(Arc::new(Reads)), ..Hooks::default() });
    let free = |bytes: usize| {
        let answer =
            served.ask(&format!("GET / HTTP/1.1\r\nHost: a\r\nX-Free: {bytes}\r\nConnection: close\r\n\r\n"));
        assert!(answer.ends_with("held"), "{answer}");
    };
    let post = |framing: &str, body: &str| {
        served.ask(&format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{framing}\r\n\r\n{body}"))
    };
    let exact = || post("Content-Length: 4", "text");
    // One of unknown length needs more room than it turns out to have.
    let chunked = || post("Transfer-Encoding: chunked", "4\r\ntext\r\n0\r\n\r\n");
    for (bytes, exact_fits, chunked_fits) in [(7, false, false), (8, true, false), (1 << 20, true, true)] {
        free(bytes);
        for (answer, fits) in [(exact(), exact_fits), (chunked(), chunked_fits)] {
            if fits {
                assert!(answer.starts_with("HTTP/1.1 200 "), "{bytes}: {answer}");
            } else {
                assert!(answer.starts_with("HTTP/1.1 503 "), "{bytes}: {answer}");
                assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
            }
        }
    }
    // What an exchange held is given back with it.
    free(8);
    for _ in 0..3 {
        assert!(exact().starts_with("HTTP/1.1 200 "));
    }
    assert!(post("", "").starts_with("HTTP/1.1 200 "), "without a body");
    // Those that are too long to be read take no room.
    let long = "text".repeat(300_000);
    assert!(post(&format!("Content-Length: {}", long.len()), &long).starts_with("HTTP/1.1 200 "));
}
