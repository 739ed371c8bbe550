//! The generator against servers whose behaviour is known: what it says of them must be true.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is its failure")]

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::http::{BodyCheck, Request};
use bench::load::{Control, Endpoint, ErrorKind, Outcome, Pace, Plan, Protocol, Target, run};
use bytes::Bytes;
use server::{Server, answer};

fn plan(server: &Server) -> Plan {
    let target = Target::parse(&format!("http://{}/x", server.address)).unwrap();
    Plan {
        request: Arc::new(Request::new("GET", &target.authority, "/x", &[], Bytes::new(), 8).unwrap()),
        endpoint: Endpoint::Tcp(server.address),
        target,
        protocol: Protocol::Http1,
        tls: None,
        threads: 1,
        connections: 4,
        depth: 1,
        duration: Duration::from_millis(300),
        warmup: Duration::ZERO,
        timeout: Duration::from_millis(400),
        requests: None,
        pace: Pace::Closed,
        check: None,
        cores: Vec::new(),
        seed: 1,
    }
}

fn measure(plan: &Plan) -> Outcome {
    run(plan, &Control::new(plan.threads)).unwrap()
}

#[test]
fn latency_agrees_with_the_servers_own_clock() {
    // Delays from 2 to 21 ms, so that the kernel's own few microseconds don't matter.
    let server = Server::start(|n, socket| {
        let begin = Instant::now();
        std::thread::sleep(Duration::from_millis(2 + n % 20));
        let taken = begin.elapsed();
        answer(socket, b"hello");
        Some(taken)
    });
    // On a crowded machine a neighbour may hold up a wake-up by more than that, so one good run of a few is asked for.
    let mut seen = Vec::new();
    for _ in 0..6 {
        server.forget();
        let outcome =
            measure(&Plan { duration: Duration::from_millis(800), connections: 8, ..plan(&server) });
        let (own, response) = (server.times(), &outcome.total.response);
        assert!(
            outcome.total.requests > 100 && outcome.total.errors_total() == 0,
            "{:?}",
            outcome.total.errors
        );
        let pairs = [0.5, 0.75, 0.9, 0.99].map(|q| (response.value_at_quantile(q), own.value_at_quantile(q)));
        if pairs
            .iter()
            .all(|(ours, theirs)| ours.abs_diff(*theirs) as f64 <= 0.02 * *theirs as f64 + 50_000.0)
        {
            return;
        }
        seen.push(pairs);
    }
    panic!("not within 2 %: {seen:?}");
}

#[test]
fn a_stall_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    // 100 ms of every 500 nobody is answered: a fifth of those who come.
    let begin = Instant::now();
    let server = Server::start(move |_, socket| {
        let phase = begin.elapsed().as_millis() % 500;
        if phase < 100 {
            std::thread::sleep(Duration::from_millis(100 - phase as u64));
        }
        answer(socket, b"hello");
        None
    });
    let base = Plan { duration: Duration::from_millis(1_500), ..plan(&server) };
    let closed = measure(&base);
    let open = measure(&Plan { pace: Pace::Constant(500.0), ..base });
    let p95 = |outcome: &Outcome| outcome.total.response.value_at_quantile(0.95) / 1_000_000;
    assert!(p95(&open) > 50, "the open loop sees the stall: {} ms", p95(&open));
    assert!(p95(&closed) < 50, "the closed loop hardly does: {} ms", p95(&closed));
    let service = open.total.service.as_ref().unwrap();
    assert!(service.value_at_quantile(0.9) < open.total.response.value_at_quantile(0.9));
    assert!(open.total.late > 0, "what waited for a connection was late");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = Server::start(|_, socket| {
        answer(socket, b"hello");
        None
    });
    for pace in [Pace::Constant(1_000.0), Pace::Poisson(1_000.0)] {
        let outcome = measure(&Plan { pace, duration: Duration::from_millis(800), ..plan(&server) });
        let due = outcome.total.sent + outcome.total.dropped;
        assert!((700..=900).contains(&due), "{pace:?}: {due}");
        assert_eq!(outcome.total.response.len(), outcome.total.requests + outcome.total.drained);
    }
}

#[test]
fn pipelined_requests_and_threads_add_up() {
    let server = Server::start(|_, socket| {
        answer(socket, b"hello");
        None
    });
    for (threads, depth, requests) in [(1, 4, 101), (2, 1, 101), (3, 8, 50)] {
        let base = plan(&server);
        let outcome = measure(&Plan {
            threads,
            depth,
            requests: Some(requests),
            duration: Duration::from_secs(20),
            timeout: Duration::from_secs(10),
            check: Some(BodyCheck { length: Some(5), sha256: None }),
            ..base
        });
        assert_eq!(
            (outcome.total.requests, outcome.total.errors_total()),
            (requests, 0),
            "{threads} {depth}"
        );
        assert!(outcome.elapsed_s < 15.0);
    }
}

#[test]
fn misbehaviour_has_its_name_and_its_end() {
    type Misbehaviour = fn(&mut std::net::TcpStream);
    let cases: [(Misbehaviour, ErrorKind, &str); 7] = [
        (|s| server::send(s, b"SSH-2.0-x\r\n"), ErrorKind::Protocol, "not HTTP"),
        (
            |s| server::send(s, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"),
            ErrorKind::Timeout,
            "no complete answer",
        ),
        (
            |s| server::send(s, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello"),
            ErrorKind::Protocol,
            "no request asked for",
        ),
        (|s| server::send(s, b"HTTP/1.1 200 OK\r\nContent-"), ErrorKind::Timeout, "no complete answer"),
        (
            |s| {
                server::send(s, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
                let _ = s.shutdown(std::net::Shutdown::Both);
            },
            ErrorKind::Closed,
            "4 bytes before the end",
        ),
        (|s| drop(s.shutdown(std::net::Shutdown::Both)), ErrorKind::Closed, "without an answer"),
        (
            |s| server::send(s, b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"),
            ErrorKind::Status,
            "status 503",
        ),
    ];
    for (misbehave, kind, words) in cases {
        let server = Server::start(move |_, socket| {
            misbehave(socket);
            None
        });
        let begin = Instant::now();
        let outcome = measure(&Plan {
            connections: 2,
            duration: Duration::from_millis(250),
            timeout: Duration::from_millis(120),
            ..plan(&server)
        });
        let found: Vec<_> = outcome.total.faults().map(|(kind, _, words)| (kind, words.to_owned())).collect();
        assert!(found.iter().any(|(k, w)| *k == kind && w.contains(words)), "{words}: {found:?}");
        assert!(begin.elapsed() < Duration::from_secs(8), "no hang");
    }
}

#[test]
fn nobody_there_is_told_as_such() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::at(address);
    let outcome = measure(&Plan { requests: Some(1), connections: 1, ..plan(&server) });
    let (kind, _, words) = outcome.total.faults().next().unwrap();
    assert_eq!(kind, ErrorKind::Connect);
    assert!(words.contains("connection refused") && words.contains(&address.to_string()), "{words}");
}

#[test]
fn a_server_that_closes_in_order_is_connected_to_again_without_an_error() {
    let server = Server::start(|n, socket| {
        if n % 3 == 2 {
            server::send(socket, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
            let _ = socket.shutdown(std::net::Shutdown::Both);
        } else {
            answer(socket, b"hi");
        }
        None
    });
    let outcome = measure(&Plan { connections: 2, ..plan(&server) });
    assert_eq!(outcome.total.errors_total(), 0, "{:?}", outcome.total.examples);
    assert!(outcome.total.connects > 3 && outcome.total.requests > 10);
}
