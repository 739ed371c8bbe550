use super::*;
use plugin::testkit::Bench;
use plugin::{Authority, MethodName, Target};
use proptest::prelude::*;
use wire::{RequestHead, RequestView};

/// What the upstream gets: the request line, and the fields in order.
struct Received {
    line: String,
    fields: Vec<(String, Vec<u8>)>,
}

impl Received {
    fn of(exchange: &mut Exchange<'_>, trusted: bool) -> Self {
        let client = &exchange.client;
        let forwarded = forwarded_lines(client);
        let hop = Hop {
            forwarded: &forwarded,
            trusted,
            pass_host: PassHost::Pass,
            upstream_host: None,
            node: &"node.test".into(),
        };
        let mut out = Vec::new();
        write_head(&hop, exchange, false, &mut out);
        let mut head = RequestHead::default();
        assert_eq!(head.parse(&out), Ok(true), "{}", String::from_utf8_lossy(&out));
        assert_eq!(head.length, out.len(), "one request, and nothing behind it");
        let view = RequestView { head: &head, bytes: &out };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let field = |field: &Field| (text(field.name.get(&out)), field.value.get(&out).to_vec());
        let received = Self {
            line: format!(
                "{} {}",
                text(head.method_token.get(view.bytes)),
                text(head.target.get(view.bytes))
            ),
            fields: head.fields.iter().map(field).collect(),
        };
        received.check_http2(write_section(&hop, exchange));
        received
    }

    /// An upstream of HTTP/2 gets the same, as far as HTTP/2 can say it.
    fn check_http2(&self, section: RequestSection) {
        let Ok(request) = section.into_request(true) else {
            // A URI has no bytes like `[` in its path, and no empty authority.
            return;
        };
        let target = request.uri().path_and_query().map(http::uri::PathAndQuery::as_str);
        assert_eq!(format!("{} {}", request.method(), target.unwrap_or_default()), self.line);
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        assert_eq!(authority, self.values("Host").first().copied());
        let left_out = ["host", "te", "transfer-encoding", "connection"];
        let mut expected: Vec<_> = self
            .fields
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim_ascii().to_vec()))
            .filter(|(name, _)| !left_out.contains(&name.as_str()))
            .collect();
        let fields = request.headers().iter();
        let mut fields: Vec<_> = fields
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .filter(|(name, _)| name != "te")
            .collect();
        // Those of one name keep their order.
        expected.sort_by(|(a, _), (b, _)| a.cmp(b));
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!(fields, expected);
    }

    fn values(&self, name: &str) -> Vec<&[u8]> {
        let named = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice()).collect()
    }
}

#[test]
fn clients_say_nothing_in_the_names_of_the_gateways_fields() {
    let bench = Bench::new(
        "GET /\nHost: localhost\nX-Real-IP: 6.6.6.6\nX_Real_IP: 6.6.6.6\nx-real_ip: 6.6.6.6\nX_Forwarded_For: 6.6.6.6\n\
         X-Forwarded-Host: evil\nX_FORWARDED_HOST: evil\nX-Forwarded_Port: 6\nx_forwarded_proto: https\n\
         X-Consumer-Username: admin\nX_Consumer_Username: admin\nX-Consumer-Custom-ID: 6\nX_consumer-anything: 6\n\
         X-Credential-Identifier: 6\nX_Credential_Identifier: 6\nX-Tenant: 6\nX_Tenant: 6\n\
         X-Requested-With: fetch\nX-Consumer: 1\nX_Custom: 1\nuser_id: 1",
    );
    for trusted in [false, true] {
        let mut exchange = bench.exchange();
        exchange.request.edit().headers.set("X-Tenant", "1");
        let received = Received::of(&mut exchange, trusted);
        let names: Vec<&str> = received.fields.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["X-Requested-With", "X-Consumer", "X_Custom", "user_id", "X-Tenant"] {
            assert_eq!(names.iter().filter(|other| **other == name).count(), 1, "{name}: {names:?}");
        }
        let spelled = |name: &&str| name.replace('_', "-").to_ascii_lowercase();
        for name in ["x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-port", "x-tenant"] {
            assert_eq!(names.iter().filter(|other| spelled(other) == name).count(), 1, "{name}: {names:?}");
        }
        assert!(!names.iter().any(|name| spelled(name).starts_with("x-consumer-")), "{names:?}");
        assert!(!names.iter().any(|name| spelled(name).starts_with("x-credential-")), "{names:?}");
        assert_eq!(received.values("X-Real-IP"), [b"127.0.0.1"]);
        let host = if trusted { &b"evil"[..] } else { b"localhost" };
        assert_eq!(received.values("X-Forwarded-Host"), [host]);
    }
}

#[test]
fn a_consumer_that_a_plugin_found_is_told_once() {
    let bench = Bench::new("GET /\nX-Consumer-Username: admin\nX_Consumer_Username: admin");
    let mut exchange = bench.exchange();
    exchange.request.edit().headers.set("X-Consumer-Username", "jack");
    let received = Received::of(&mut exchange, false);
    assert_eq!(received.values("X-Consumer-Username"), [b"jack"]);
    assert!(received.values("X_Consumer_Username").is_empty());
}

#[test]
fn the_clients_address_stands_behind_whatever_plugins_say_of_x_forwarded_for() {
    type Edit = fn(&mut HeaderEdits);
    let edits: [(Edit, &[u8]); 7] = [
        (|_| (), b"1.1.1.1, 2.2.2.2, 127.0.0.1"),
        (|edits| edits.set("X-Forwarded-For", "9.9.9.9"), b"9.9.9.9, 127.0.0.1"),
        (|edits| edits.set("x-forwarded-for", ""), b"127.0.0.1"),
        (|edits| edits.append("X-Forwarded-For", "9.9.9.9"), b"1.1.1.1, 2.2.2.2, 9.9.9.9, 127.0.0.1"),
        (|edits| edits.remove("X-Forwarded-For"), b"127.0.0.1"),
        (
            |edits| {
                edits.set("X-Forwarded-For", "8.8.8.8");
                edits.append("X-Forwarded-For", "9.9.9.9");
            },
            b"8.8.8.8, 9.9.9.9, 127.0.0.1",
        ),
        (|edits| edits.set("X-Other", "a"), b"1.1.1.1, 2.2.2.2, 127.0.0.1"),
    ];
    let bench = Bench::new("GET /\nX-Forwarded-For: 1.1.1.1\nX-Other: b\nX-Forwarded-For: 2.2.2.2");
    for (at, (edit, expected)) in edits.into_iter().enumerate() {
        for trusted in [false, true] {
            let mut exchange = bench.exchange();
            edit(&mut exchange.request.edit().headers);
            exchange.request.edit().headers.append("X-Added", "c");
            let received = Received::of(&mut exchange, trusted);
            assert_eq!(received.values("X-Forwarded-For"), [expected], "{at} {trusted}");
            assert_eq!(received.values("X-Other"), [if at == 6 { b"a" } else { b"b" }], "{at} {trusted}");
            assert_eq!(received.values("X-Added"), [b"c"], "{at} {trusted}");
        }
    }
}

/// Bytes that matter to a head, and others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let special = proptest::sample::select(b"\r\n\0\t :/?#%&=*[]@\x7f\x01\xff\xc3\xa4aA1.-_,".to_vec());
    proptest::collection::vec(prop_oneof![4 => special, 1 => any::<u8>()], 0..40)
}

proptest! {
    #[test]
    fn whatever_plugins_set_is_one_request_with_the_fields_that_were_meant(
        (target, is_path) in (bytes(), any::<bool>()),
        host in bytes(),
        method in "[A-Z_ \r\n]{0,4}",
        name in bytes(),
        value in bytes(),
        query in bytes(),
        client in "[!-~\\u{80}-\\u{ff} \t]{0,30}",
    ) {
        let request = format!("GET /a?b=c\nHost: a.test:8080\nX-Other: 1\nX-Own: client\nX-Client: {client}\nx_own: {client}");
        let bench = Bench::new(&request);
        let mut exchange = bench.exchange();
        exchange.request.set_query(query);
        let edits = exchange.request.edit();
        edits.target = Some(if is_path { Target::of_path(&target) } else { Target::new(target) });
        edits.host = Authority::new(host);
        edits.method = MethodName::new(method);
        let expected_host = edits.host.as_deref().unwrap_or(b"a.test:8080").to_vec();
        let line = format!(
            "{} {}",
            edits.method.as_deref().unwrap_or("GET"),
            String::from_utf8_lossy(edits.target.as_deref().unwrap_or_default())
        );
        // The parser refuses these methods and forms altogether.
        prop_assume!(!line.ends_with(" *") && !line.starts_with("TRACE") && !line.starts_with("CONNECT"));
        edits.headers.set("X-Own", &value);
        edits.headers.append(&format!("x{}", String::from_utf8_lossy(&name)), &value);
        let received = Received::of(&mut exchange, false);
        prop_assert_eq!(&received.line, &line);
        prop_assert_eq!(received.values("Host"), [&expected_host[..]]);
        prop_assert_eq!(received.values("X-Other"), [b"1"]);
        prop_assert_eq!(received.values("X-Client"), [client.trim_matches([' ', '\t']).as_bytes()]);
        prop_assert!(received.values("X_Own").is_empty());
        let own = received.values("X-Own");
        prop_assert!(!own.is_empty() && own.iter().all(|value| *value != b"client"));
        let known = ["host", "x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host",
            "x-forwarded-port", "x-other", "x-own", "x-client"];
        let others: Vec<&str> = received
            .fields
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !known.contains(&name.to_ascii_lowercase().as_str()))
            .collect();
        let added = format!("x{}", String::from_utf8_lossy(&name));
        prop_assert!(others.iter().all(|name| *name == added), "{:?}", others);
        prop_assert!(others.len() <= 1);
        for (_, value) in &received.fields {
            prop_assert!(!value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f));
        }
    }
}
