//! Bodies: whole, in order and in both directions, whatever their size, framing and pace.

use e2e::{Gateway, Message, Pattern, Peer, Upstream};
use serde_json::json;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Around the sizes of buffers and pieces: one byte, 4 KiB, 64 KiB, and what no buffer holds.
const SIZES: [usize; 9] = [0, 1, 4095, 4096, 4097, 65_535, 65_537, 1_048_577, 50 << 20];

/// How much the gateway may grow while somebody doesn't read: a few pooled buffers, not the body.
const GROWTH_KB_MAX: u64 = 20 << 10;

/// Sends a request's body back, framed as it came.
fn mirror(request: &Message) -> Vec<u8> {
    let mut answer = Vec::new();
    if request.lists("transfer-encoding", "chunked") {
        answer.extend(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
        chunk(&mut answer, &request.body, 10_000);
        let trailers = request.trailers.iter().map(|line| format!("{line}\r\n")).collect::<String>();
        answer.extend(format!("0\r\n{trailers}\r\n").bytes());
    } else {
        answer.extend(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len()).bytes());
        answer.extend(&request.body);
    }
    answer
}

fn chunk(out: &mut Vec<u8>, body: &[u8], size: usize) {
    for piece in body.chunks(size) {
        out.extend(format!("{:x}\r\n", piece.len()).bytes());
        out.extend(piece);
        out.extend(b"\r\n");
    }
}

#[test]
fn bodies_with_a_length_arrive_whole() {
    let upstream = Upstream::answering(mirror);
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    for size in SIZES {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n"));
        client.send(Pattern::bytes(size));
        let answer = client.response();
        assert_eq!(answer.field("content-length"), Some(size.to_string().as_str()));
        Pattern::check(&answer.body, size);
    }
}

#[test]
fn chunked_bodies_arrive_whole_with_their_trailers() {
    let upstream = Upstream::answering(mirror);
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    for size in SIZES {
        let mut request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        // Sizes that fit no buffer evenly; a chunk per byte where that is affordable.
        chunk(&mut request, &Pattern::bytes(size), if size < 5000 { 1 } else { 7919 });
        request.extend(b"0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n");
        client.send(request);
        let answer = client.response();
        Pattern::check(&answer.body, size);
        assert_eq!(answer.trailers, ["X-Sum: 1", "X-More: 2"], "{size} bytes");
    }
}

#[test]
fn a_body_that_drips_in_is_passed_on_as_it_comes() {
    let (arrived, arrives) = channel();
    let upstream = Upstream::serve(move |mut peer, _| {
        peer.head();
        for _ in 0..5 {
            arrived.send(peer.bytes(1)).unwrap();
        }
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    for byte in b"drips" {
        client.send([*byte]);
        assert_eq!(arrives.recv_timeout(Duration::from_secs(5)).unwrap(), [*byte]);
    }
    assert_eq!(client.response().status(), 200);
}

#[test]
fn a_response_that_drips_in_is_passed_on_as_it_comes() {
    let (next, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::serve(move |mut peer, _| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        for byte in b"drips" {
            peer.send([*byte]);
            let _ = wait.lock().unwrap().recv();
        }
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().lists("transfer-encoding", "chunked"), "its length is not known in advance");
    for byte in b"drips" {
        assert_eq!(client.bytes(6), [b"1\r\n", [*byte].as_slice(), b"\r\n"].concat());
        next.send(()).unwrap();
    }
    assert_eq!(client.bytes(5), b"0\r\n\r\n");
}

#[test]
fn permission_to_send_is_given_once() {
    let (upstream, seen) = Upstream::recording();
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().start, "HTTP/1.1 100 Continue");
    client.send("hello");
    assert_eq!(client.response().status(), 200);
    let request = seen.only();
    assert_eq!((request.text().as_str(), request.field("expect")), ("hello", None));
    // A body that doesn't wait needs no permission.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");
    assert_eq!(client.response().status(), 200);
    // Where nothing would take the body, it is not asked for.
    gateway.admin("DELETE", "routes/all", &json!(null));
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    let refused = client.response();
    assert_eq!((refused.status(), refused.field("connection")), (404, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn interim_responses_are_passed_on() {
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: close, X-Own\r\n\
          X-Own: 1\r\n\r\n\
          HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            .to_vec()
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let hints = client.head();
        assert_eq!((hints.start.as_str(), hints.field("link")), ("HTTP/1.1 103 Early Hints", Some("</a>")));
        assert_eq!(
            (hints.field("connection"), hints.field("x-own")),
            (None, None),
            "the upstream's connection's"
        );
        assert_eq!(client.response().text(), "ok");
    }
    // HTTP/1.0 knows no interim responses.
    let mut old = gateway.connect();
    old.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(old.response().text(), "ok");
}

#[test]
fn old_clients_get_bodies_without_chunks() {
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"
            .to_vec()
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.field("transfer-encoding"), answer.field("connection")), (None, Some("close")));
    assert_eq!(answer.text(), "abcde");
}

#[test]
fn a_client_that_does_not_read_holds_the_upstream_back() {
    const SIZE: usize = 200 << 20;
    let upstream = Upstream::serve(|mut peer, _| {
        peer.request().unwrap();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..SIZE / piece.len() {
            if peer.try_send(&piece).is_err() {
                return;
            }
        }
    });
    let mut gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    assert_eq!(gateway.get("/../").status(), 400, "warm");
    let before = gateway.process().memory_kb("VmRSS");
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status(), 200);
    // Unread, the sockets fill up, and the gateway has to stop reading.
    std::thread::sleep(Duration::from_millis(500));
    let while_full = gateway.process().memory_kb("VmHWM");
    assert!(while_full < before + GROWTH_KB_MAX, "{before} kB grew to {while_full} kB");
    let mut left = SIZE - client.unused().len();
    drain(&client, &mut left);
    let after = gateway.process().memory_kb("VmHWM");
    assert!(after < before + GROWTH_KB_MAX, "{before} kB grew to {after} kB");
}

/// Reads `left` more bytes without keeping them.
fn drain(client: &Peer, left: &mut usize) {
    use std::io::Read;
    let mut piece = vec![0; 1 << 20];
    while *left > 0 {
        let count = client.stream().read(&mut piece).unwrap();
        assert!(count > 0, "it ended {left} bytes early");
        *left -= count;
    }
}

#[test]
fn an_upstream_that_does_not_read_holds_the_client_back() {
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::serve(move |mut peer, _| {
        let _ = wait.lock().unwrap().recv();
        if let Ok(request) = peer.request() {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Size: {}\r\n\r\n",
                request.body.len()
            ));
        }
    });
    let mut gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let before = gateway.process().memory_kb("VmRSS");
    const SIZE: usize = 60 << 20;
    let mut client = gateway.connect();
    let mut writer = Peer::new(client.stream().try_clone().unwrap());
    let sender = std::thread::spawn(move || {
        writer.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n"));
        writer.send(vec![b'x'; SIZE]);
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(!sender.is_finished(), "60 MB fit into no socket");
    go.send(()).unwrap();
    assert_eq!(client.response().field("x-size"), Some(SIZE.to_string().as_str()));
    sender.join().unwrap();
    let after = gateway.process().memory_kb("VmHWM");
    assert!(after < before + GROWTH_KB_MAX, "{before} kB grew to {after} kB");
}
