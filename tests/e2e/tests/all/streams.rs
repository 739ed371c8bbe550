//! Stream routes: TCP, TLS and UDP passed on, the PROXY protocol, plugins, the end of a gateway.

use e2e::{Gateway, Peer, Upstream, eventually, free_ports};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A moment in which nothing is expected to come.
const MOMENT: Duration = Duration::from_millis(200);

fn loopback(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A gateway with these ports of streams, and further keys of `config.yaml`.
fn gateway(tcp: &Value, udp: &Value, more: Value) -> Gateway {
    let mut config = more;
    config["apisix"]["proxy_mode"] = json!("http&stream");
    config["apisix"]["stream_proxy"] = json!({ "tcp": tcp, "udp": udp });
    Gateway::with(config)
}

/// An upstream that says what its name is and then repeats what it hears.
fn echo(name: &'static str) -> Upstream {
    Upstream::serve(move |mut peer, _| {
        if peer.try_send(name.as_bytes()).is_err() {
            return;
        }
        while peer.fill().is_ok_and(|more| more) {
            let heard = peer.bytes(peer.unused().len());
            if peer.try_send(&heard).is_err() {
                return;
            }
        }
        peer.finish();
    })
}

fn to(address: &str) -> Value {
    json!({ "nodes": { address: 1 }, "type": "roundrobin" })
}

/// A session whose upstream answers with `expected`, once the route is there.
fn session(port: u16, expected: &str) -> Peer {
    eventually("the route is there", || {
        let mut peer = Peer::connect(port);
        peer.stream().set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        while peer.unused().len() < expected.len() {
            if !peer.fill().is_ok_and(|more| more) {
                return None;
            }
        }
        (peer.bytes(expected.len()) == expected.as_bytes()).then_some(peer)
    })
}

#[test]
fn connections_are_passed_on_by_port_and_end_as_they_are_ended() {
    let ([first, second, unrouted, dead], one, two) = (free_ports::<4>(), echo("one"), echo("two"));
    let tcp = json!([loopback(first), { "addr": loopback(second) }, loopback(unrouted)]);
    let gateway = gateway(&tcp, &Value::Null, json!({}));
    // A node that does not listen is passed over.
    let nodes = json!([
        { "host": "127.0.0.1", "port": dead, "weight": 1 },
        { "host": "127.0.0.1", "port": one.port, "weight": 1 },
    ]);
    gateway.put(
        "stream_routes/1",
        &json!({ "server_port": first, "upstream": { "nodes": nodes, "type": "roundrobin" } }),
    );
    gateway.put("upstreams/two", &to(&two.address()));
    gateway.put("services/two", &json!({ "upstream_id": "two" }));
    gateway.put("stream_routes/2", &json!({ "server_port": second, "service_id": "two" }));
    for (port, name) in [(first, "one"), (second, "two"), (first, "one")] {
        let mut peer = session(port, name);
        let long = vec![b'x'; 300_000];
        peer.send(&long);
        assert_eq!(peer.bytes(long.len()), long);
        peer.finish();
        assert!(peer.is_closed());
    }
    assert!(Peer::connect(unrouted).is_closed());

    // A service that changes takes its routes with it.
    gateway.put("upstreams/two", &to(&one.address()));
    session(second, "one");
}

/// The port of a node that repeats the datagrams it gets, with the port before them that they came from.
fn repeater() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let mut answer = format!("{} ", from.port()).into_bytes();
            answer.extend_from_slice(&buffer[..length]);
            socket.send_to(&answer, from).unwrap();
        }
    });
    port
}

/// A client of datagrams, which waits for so long for each answer.
fn sender(port: u16, patience: Duration) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    client.set_read_timeout(Some(patience)).unwrap();
    client
}

/// Where a datagram came from at the node, and what it said there.
fn ask(client: &UdpSocket, text: &str) -> Option<(String, String)> {
    let mut buffer = [0; 65_536];
    client.send(text.as_bytes()).unwrap();
    let length = client.recv(&mut buffer).ok()?;
    let (from, said) = std::str::from_utf8(&buffer[..length]).unwrap().split_once(' ')?;
    Some((from.to_owned(), said.to_owned()))
}

#[test]
fn a_node_that_refuses_datagrams_keeps_no_session() {
    let [port, dead] = free_ports::<2>();
    let gateway = gateway(&json!([]), &json!([loopback(port)]), json!({}));
    let nodes = json!({ loopback(dead): 1, loopback(repeater()): 1 });
    let upstream = json!({ "nodes": nodes, "type": "roundrobin", "scheme": "udp" });
    gateway.put("stream_routes/1", &json!({ "server_port": port, "upstream": upstream }));
    // Every other session begins at the dead node, and would stay there until it idled for a minute.
    for _ in 0..6 {
        let client = sender(port, MOMENT);
        eventually("the other node is tried", || ask(&client, "hello"));
    }
}

#[test]
fn datagrams_go_to_one_node_for_each_client() {
    let [port] = free_ports::<1>();
    let gateway = gateway(&json!([]), &json!([loopback(port)]), json!({}));
    let mut upstream = to(&loopback(repeater()));
    upstream["scheme"] = json!("udp");
    gateway.put("stream_routes/1", &json!({ "server_port": port, "upstream": upstream }));
    let client = || sender(port, Duration::from_secs(1));
    let one = eventually("the route is there", || {
        let one = client();
        ask(&one, "hello").map(|_| one)
    });
    let long = "y".repeat(8_000);
    let (from, said) = ask(&one, &long).unwrap();
    assert_eq!(said, long);
    assert_eq!(ask(&one, "again").unwrap(), (from.clone(), "again".to_owned()), "the session is one");
    let two = client();
    assert_ne!(ask(&two, "other").unwrap().0, from, "each client has its own");
}

struct Pair {
    cert: String,
    key: String,
}

fn leaf(name: &str) -> Pair {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
    Pair { cert: cert.pem(), key: key.serialize_pem() }
}

#[test]
fn tls_ends_at_the_gateway_and_begins_there_by_the_name_that_was_asked_for() {
    let ([port], upstream) = (free_ports::<1>(), Upstream::hello());
    let tcp = json!([{ "addr": loopback(port), "tls": true }]);
    let gateway = gateway(&tcp, &Value::Null, json!({}));
    for name in ["a.test", "b.test"] {
        let pair = leaf(name);
        gateway.put(
            &format!("ssls/{}", &name[..1]),
            &json!({ "snis": [name], "cert": pair.cert, "key": pair.key }),
        );
    }
    gateway.route_all(&upstream.address());
    // To its own HTTPS port, which has certificates for these names alone.
    let again = json!({ "nodes": { loopback(gateway.tls_port): 1 }, "type": "roundrobin", "scheme": "tls" });
    gateway.put("stream_routes/1", &json!({ "sni": "a.test", "upstream": again }));
    gateway.put("stream_routes/2", &json!({ "sni": "*.test", "upstream": to(&upstream.address()) }));
    let status = |name: &str, options: &[&str]| {
        let resolve = format!("{name}:{port}:127.0.0.1");
        let mut command = Command::new("curl");
        command.args([
            "-sk",
            "--max-time",
            "10",
            "--resolve",
            &resolve,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
        ]);
        let output = command.args(options).arg(format!("https://{name}:{port}/")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for name in ["a.test", "b.test"] {
        eventually("its route and certificate are there", || {
            (status(name, &["--http1.1"]) == "200").then_some(())
        });
    }
    assert_eq!(status("a.test", &["--no-alpn"]), "200");
    assert_eq!(status("c.example", &["--http1.1"]), "000");
    assert!(upstream.connections() > 0);
}

/// A header of version 2 from 192.0.2.7:1000 to 192.0.2.8:2000.
const HEADER_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x08\x03\xe8\x07\xd0";
const HEADER_1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.8 1000 2000\r\n";

#[test]
fn proxies_tell_of_their_clients_and_so_do_we() {
    let [tcp, plain, second, http] = free_ports::<4>();
    let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let record = Arc::clone(&heard);
    let upstream = Upstream::serve(move |mut peer, _| {
        while peer.fill().is_ok_and(|more| more) && !peer.unused().ends_with(b"!") {}
        record.lock().unwrap().push(peer.unused().to_vec());
        let _ = peer.try_send(b"done");
    });
    let (requests, seen) = Upstream::recording();
    let ports = json!([
        { "addr": loopback(tcp), "proxy_protocol": true, "proxy_protocol_to_upstream": true },
        { "addr": loopback(plain), "proxy_protocol_to_upstream": true },
        { "addr": loopback(second), "proxy_protocol": true, "proxy_protocol_to_upstream": "v2" },
    ]);
    let gateway = gateway(
        &ports,
        &Value::Null,
        json!({
            "apisix": { "proxy_protocol": { "listen_http_port": http } },
            "nginx_config": {
                "stream": { "real_ip_from": ["127.0.0.1"] },
                "http": { "real_ip_header": "proxy_protocol", "real_ip_from": ["127.0.0.1"] },
            },
        }),
    );
    gateway.put("stream_routes/1", &json!({ "upstream": to(&upstream.address()) }));
    gateway.route_all(&requests.address());

    let talk = |port: u16, pieces: &[&[u8]]| {
        eventually("the route is there", || {
            let mut peer = Peer::connect(port);
            for piece in pieces {
                peer.try_send(piece).ok()?;
                // The pieces are to arrive as such.
                std::thread::sleep(Duration::from_millis(5));
            }
            while peer.unused() != b"done" {
                if !peer.fill().is_ok_and(|more| more) {
                    return None;
                }
            }
            heard.lock().unwrap().pop()
        })
    };
    let expected = format!("PROXY TCP4 192.0.2.7 127.0.0.1 1000 {tcp}\r\nhello!").into_bytes();
    assert_eq!(talk(tcp, &[HEADER_1, b"hello!"]), expected);
    assert_eq!(talk(tcp, &[HEADER_2, b"hello!"]), expected);
    assert_eq!(talk(tcp, &[&[HEADER_1, b"hello!"].concat()]), expected);
    assert_eq!(talk(tcp, &[&HEADER_2[..7], &HEADER_2[7..20], &HEADER_2[20..], b"hello!"]), expected);
    let own = talk(plain, &[b"hello!"]);
    assert!(own.starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1 "), "{own:?}");
    // Of version 2, from 192.0.2.7:1000 to where the gateway took the connection.
    let told =
        [&HEADER_2[..20], &[127, 0, 0, 1], &HEADER_2[24..26], &second.to_be_bytes(), b"hello!"].concat();
    assert_eq!(talk(second, &[HEADER_1, b"hello!"]), told);
    let mut hostile = Peer::connect(tcp);
    hostile.send(b"hello!");
    assert!(hostile.is_closed(), "there has to be a header");

    for header in [HEADER_1, HEADER_2] {
        let mut peer = Peer::connect(http);
        peer.send([header, b"GET / HTTP/1.1\r\nHost: e2e\r\nproxy_protocol: 203.0.113.1\r\n\r\n"].concat());
        assert_eq!(peer.response().status(), 200);
        assert_eq!(seen.only().field("X-Real-IP"), Some("192.0.2.7"));
    }
    assert_eq!(gateway.get("/").status(), 200, "the other port wants none");
}

/// CONNECT of MQTT 3.1.1 with this client id.
fn connect(id: &str) -> Vec<u8> {
    let length = u8::try_from(id.len()).unwrap();
    let mut packet = vec![0x10, 12 + length];
    packet.extend_from_slice(b"\0\x04MQTT\x04\x02\0\x3c\0");
    packet.push(length);
    packet.extend_from_slice(id.as_bytes());
    packet
}

#[test]
fn plugins_see_sessions_begin() {
    let ([port, closed], one, two) = (free_ports::<2>(), echo("one"), echo("two"));
    let tcp = json!([loopback(port), loopback(closed)]);
    let gateway = gateway(&tcp, &Value::Null, json!({}));
    let nodes = json!({ one.address(): 1, two.address(): 1 });
    gateway.put(
        "stream_routes/1",
        &json!({
            "server_port": port,
            "plugins": { "mqtt-proxy": { "protocol_level": 4 } },
            "upstream": { "nodes": nodes, "type": "chash", "key": "mqtt_client_id" },
        }),
    );
    gateway.put(
        "stream_routes/2",
        &json!({
            "server_port": closed,
            "plugins": { "ip-restriction": { "blacklist": ["127.0.0.0/8"] } },
            "upstream": to(&one.address()),
        }),
    );
    let ask = |id: &str| {
        let packet = connect(id);
        let mut peer = Peer::connect(port);
        peer.send(&packet[..5]);
        assert!(peer.is_quiet(Duration::from_millis(20)), "it waits for the rest");
        peer.send(&packet[5..]);
        let name = peer.bytes(3);
        assert_eq!(peer.bytes(packet.len()), packet, "nothing is taken away");
        name
    };
    eventually("the route is there", || {
        let mut peer = Peer::connect(port);
        peer.try_send(&connect("first")).ok()?;
        peer.fill().ok()?.then_some(())
    });
    let ids: Vec<String> = (0..16).map(|number| format!("client-{number}")).collect();
    let names: Vec<Vec<u8>> = ids.iter().map(|id| ask(id)).collect();
    assert!(names.contains(&b"one".to_vec()) && names.contains(&b"two".to_vec()), "{names:?}");
    let again: Vec<Vec<u8>> = ids.iter().map(|id| ask(id)).collect();
    assert_eq!(names, again, "a client comes to its node again");
    let mut other = Peer::connect(port);
    other.send(b"GET / HTTP/1.1\r\n\r\n");
    assert!(other.is_closed());
    let before = one.connections();
    assert!(Peer::connect(closed).is_closed());
    assert_eq!(one.connections(), before);
}

#[test]
fn sessions_are_logged_and_counted() {
    let ([port], upstream) = (free_ports::<1>(), echo("one"));
    let log = json!({ "nginx_config": { "stream": { "enable_access_log": true } } });
    let gateway = gateway(&json!([loopback(port)]), &Value::Null, log);
    let plugins = json!({ "prometheus": {} });
    gateway.put("stream_routes/1", &json!({ "plugins": plugins, "upstream": to(&upstream.address()) }));
    let mut peer = session(port, "one");
    peer.send("four");
    assert_eq!(peer.bytes(4), b"four");
    let active = |count: u32| {
        let line = format!("apisix_stream_active_connections{{listen_addr=\"{}\"}} {count}", loopback(port));
        gateway.metrics().lines().any(|found| found == line).then_some(())
    };
    eventually("one session goes on", || active(1));
    drop(peer);
    eventually("it has ended", || active(0));
    let path = gateway.data_dir().join("logs/access_stream.log");
    eventually("the log is written", || {
        let text = std::fs::read_to_string(&path).ok()?;
        text.lines()
            .any(|line| line.starts_with("127.0.0.1 [") && line.contains("] TCP 200 7 4 0."))
            .then_some(())
    });
    let metrics = gateway.metrics();
    for line in [
        "apisix_stream_connection_total{route=\"1\"} 1".to_owned(),
        format!(
            "apisix_stream_status{{code=\"200\",listen_addr=\"{}\",node=\"{}\"}} 1",
            loopback(port),
            upstream.address()
        ),
        format!(
            "apisix_stream_bandwidth{{listen_addr=\"{}\",type=\"egress\",side=\"downstream\"}} 7",
            loopback(port)
        ),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn sessions_outlive_a_reload_and_the_order_to_end() {
    let ([port, other], upstream) = (free_ports::<2>(), echo("one"));
    let mut gateway = gateway(&json!([loopback(port)]), &Value::Null, json!({}));
    gateway.put("stream_routes/1", &json!({ "upstream": to(&upstream.address()) }));
    let mut peer = session(port, "one");
    let said = gateway.reload(&json!({ "apisix": { "stream_proxy": { "tcp": [loopback(other)] } } }));
    assert!(said.contains("in force"), "{said}");
    let mut second = session(other, "one");
    peer.send("still");
    assert_eq!(peer.bytes(5), b"still", "its port is gone, it is not");
    eventually("the port is closed", || std::net::TcpStream::connect(loopback(port)).is_err().then_some(()));

    gateway.process().signal(Signal::QUIT);
    eventually("nothing is accepted", || {
        std::net::TcpStream::connect(loopback(other)).is_err().then_some(())
    });
    for peer in [&mut peer, &mut second] {
        peer.send("here");
        assert_eq!(peer.bytes(4), b"here");
    }
    assert!(peer.is_quiet(MOMENT));
    drop((peer, second));
    eventually("it ends with its last session", || gateway.process().ended());
}
