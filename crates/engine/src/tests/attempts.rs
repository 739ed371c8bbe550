//! Hooks that see each attempt, and limits that plugins set for one exchange.

use super::fixture::{engine, node};
use plugin::{Attempt, AttemptFlow, Exchange, ExchangeLimits, Flow, Hooks, OnAccess, OnAttempt};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Signs each attempt, and declines some nodes.
#[derive(Clone)]
struct Signs {
    declined: Vec<SocketAddr>,
}

impl OnAccess for Signs {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        exchange.on_attempt(self.clone());
        Flow::Next
    }
}

impl OnAttempt for Signs {
    fn attempt(&mut self, exchange: &mut Exchange<'_>, attempt: &Attempt<'_>) -> AttemptFlow {
        assert_eq!(exchange.upstream.addr(), attempt.address.to_string());
        assert_eq!(attempt.node, attempt.address.to_string());
        let text = format!("{} {} {}", attempt.number, attempt.address, attempt.host.escape_ascii());
        exchange.request.edit().headers.append("X-Signed", text);
        if self.declined.contains(&attempt.address) { AttemptFlow::Decline } else { AttemptFlow::Next }
    }
}

/// The signatures in `request`.
fn signatures(request: &str) -> Vec<String> {
    request.lines().filter_map(|line| line.strip_prefix("X-Signed: ")).map(str::to_owned).collect()
}

fn telling(told: Sender<String>, answer: Option<&'static str>) -> SocketAddr {
    node(move |request| {
        let _ = told.send(request.to_owned());
        answer
    })
}

#[test]
fn each_attempt_is_signed_for_its_node_alone() {
    let (told, requests) = channel();
    let good = telling(told.clone(), Some("good"));
    let failing = telling(told, None);
    let served = engine(&[failing, good], || Hooks {
        access: Some(Arc::new(Signs { declined: Vec::new() })),
        ..Hooks::default()
    });
    for _ in 0..6 {
        assert!(served.ask(GET).ends_with("good"));
    }
    let mut kinds = BTreeSet::new();
    for request in requests.try_iter() {
        let signed = signatures(&request);
        assert_eq!(signed.len(), 1, "{request}");
        kinds.extend(signed);
    }
    let expected = [(1, failing), (2, good)].map(|(number, node)| format!("{number} {node} a"));
    assert!(kinds.contains(&expected[0]) && kinds.contains(&expected[1]), "{kinds:?}");
    assert!(!kinds.contains(&format!("2 {failing} a")), "{kinds:?}");
}

#[test]
fn a_node_that_is_declined_gets_nothing() {
    let (told, requests) = channel();
    let good = telling(told.clone(), Some("good"));
    let declined = telling(told, Some("declined"));
    let hooks = move |declined: Vec<SocketAddr>| {
        move || Hooks { access: Some(Arc::new(Signs { declined: declined.clone() })), ..Hooks::default() }
    };
    let served = engine(&[declined, good], hooks(vec![declined]));
    for _ in 0..4 {
        assert!(served.ask(GET).ends_with("good"));
    }
    assert_eq!(requests.try_iter().count(), 4);
    let alone = engine(&[declined], hooks(vec![declined]));
    assert!(alone.ask(GET).starts_with("HTTP/1.1 503 "));
    assert_eq!(requests.try_iter().count(), 0);
}

/// Sets limits for the exchange.
struct Limits(ExchangeLimits);

impl OnAccess for Limits {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        exchange.extras().limits = self.0;
        Flow::Next
    }
}

#[test]
fn limits_of_plugins_hold_for_their_exchange() {
    let good = node(|_| Some("good"));
    // Takes connections and says nothing.
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let silent_at = silent.local_addr().expect("bound");
    let with =
        |limits: ExchangeLimits| move || Hooks { access: Some(Arc::new(Limits(limits))), ..Hooks::default() };
    let none = ExchangeLimits::default();
    let brief = Some(Duration::from_millis(300));
    let post = |length: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{length}\r\n\r\n");
    let small = ExchangeLimits { body_bytes_max: Some(4), ..none };
    let chunked = post("Transfer-Encoding: chunked");
    for (limits, to, request, status) in [
        (small, good, post("Content-Length: 4") + "1234", 200),
        (small, good, post("Content-Length: 5") + "12345", 413),
        (small, good, chunked.clone() + "5\r\n12345\r\n0\r\n\r\n", 413),
        (ExchangeLimits { read_timeout: brief, ..none }, silent_at, GET.to_owned(), 504),
        (ExchangeLimits { body_timeout: brief, ..none }, good, post("Content-Length: 5"), 408),
        (ExchangeLimits { body_timeout: brief, ..none }, silent_at, post("Content-Length: 5") + "1", 408),
        (none, good, GET.to_owned(), 200),
    ] {
        let served = engine(&[to], with(limits));
        let began = Instant::now();
        let mut stream = TcpStream::connect(served.address).expect("listened on");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = [0; 13];
        stream.read_exact(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(answer, format!("HTTP/1.1 {status} "), "{limits:?} {request}");
        assert!(began.elapsed() < Duration::from_secs(20), "{limits:?} {request}");
    }
}
