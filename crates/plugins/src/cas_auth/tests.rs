use super::*;
use plugin::testkit::{self, Bench};
use plugin::{CallErrorKind, Chain, Registry};

const SUCCESS: &str = "<cas:serviceResponse><cas:authenticationSuccess><cas:user>jack</cas:user>\
                       </cas:authenticationSuccess></cas:serviceResponse>";

fn registry() -> Registry {
    Registry::new([def()], serde_json::Map::new()).expect("a valid schema")
}

fn config(callback: &str) -> Value {
    json!({
        "idp_uri": "http://cas.test/cas", "cas_callback_uri": callback, "logout_uri": "/logout",
        "cookie": {"secret": "0123456789abcdef0123456789abcdef", "secure": false}
    })
}

fn chain(callback: &str) -> Chain {
    testkit::chain(&registry(), &json!({ "cas-auth": config(callback) })).expect("valid")
}

/// The status, the cookies that stay and `Location`.
fn run(chain: &Chain, bench: &Bench) -> (u16, Vec<String>, String) {
    let mut exchange = bench.exchange();
    let reply = testkit::request(chain, &mut exchange);
    let lines = testkit::lines(exchange.reply_headers);
    let cookies = lines.lines().filter(|line| !line.contains("Max-Age=0"));
    let cookies = cookies.filter_map(|line| line.strip_prefix("Set-Cookie: ")?.split(';').next());
    let location = reply.as_ref().and_then(|reply| reply.header(b"location"));
    let location = String::from_utf8_lossy(location.unwrap_or_default()).into_owned();
    (reply.map_or(0, |reply| reply.status), cookies.map(str::to_owned).collect(), location)
}

fn logged_in(chain: &Chain, ticket: &str) -> String {
    let (_, asked, _) = run(chain, &Bench::new("GET /a?b"));
    let bench = Bench::new(&format!("GET /back?ticket={ticket}\nHost: a.test\nCookie: {}", asked[0]));
    bench.services.answer(200, &[], SUCCESS);
    let (status, session, location) = run(chain, &bench);
    assert_eq!((status, location.as_str(), session.len()), (302, "/a?b", 1));
    session[0].clone()
}

#[test]
fn a_client_logs_in_and_out() {
    let chain = chain("/back");
    let (status, asked, location) = run(&chain, &Bench::new("GET /a?b\nHost: a.test"));
    let expected = "http://cas.test/cas/login?service=http%3A%2F%2Fa.test%3A9080%2Fback";
    assert_eq!((status, location.as_str()), (302, expected));
    let bench = Bench::new(&format!("GET /back?ticket=ST-1%26\nHost: a.test\nCookie: {}", asked[0]));
    bench.services.answer(200, &[], SUCCESS);
    let (_, session, _) = run(&chain, &bench);
    let target = bench.services.calls().remove(0).target;
    assert_eq!(target, "/cas/serviceValidate?ticket=ST-1%26&service=http%3A%2F%2Fa.test%3A9080%2Fback");
    let with = |line: &str| run(&chain, &Bench::new(&format!("{line}\nCookie: {}", session[0])));
    assert_eq!(with("GET /a").0, 0);
    let (status, _, location) = with("GET /logout");
    assert_eq!((status, location.as_str()), (302, "http://cas.test/cas/logout"));
    assert_eq!(with("GET /a").0, 302, "over");
    assert_eq!(run(&chain, &Bench::new("GET /logout")).0, 401);
}

#[test]
fn the_server_ends_sessions_by_their_ticket() {
    let chain = chain("/back");
    let session = logged_in(&chain, "ST-2");
    let post = |body: &str| {
        let request = format!("POST /back\nContent-Length: {}", body.len());
        run(&chain, &Bench::new(&request).with_body(body)).0
    };
    assert_eq!(post("<samlp:SessionIndex>ST-1</samlp:SessionIndex>"), 200, "of nobody");
    let with = || run(&chain, &Bench::new(&format!("GET /a\nCookie: {session}"))).0;
    assert_eq!(with(), 0);
    assert_eq!(post("<samlp:LogoutRequest><samlp:SessionIndex>ST-2</samlp:SessionIndex>"), 200);
    assert_eq!(with(), 302);
    for nonsense in ["", "<samlp:SessionIndex>", "<samlp:SessionIndex></samlp:SessionIndex>"] {
        assert_eq!(post(nonsense), 400);
    }
}

#[test]
fn tickets_are_good_once_with_the_clients_own_cookie_and_a_clear_answer() {
    let chain = chain("/back");
    let (_, asked, _) = run(&chain, &Bench::new("GET /a"));
    let forged = format!("{REQUEST_URI}={}.AAAA", STANDARD_NO_PAD.encode("/a"));
    for cookie in ["", &forged, "CAS_REQUEST_URI=x"] {
        let bench = Bench::new(&format!("GET /back?ticket=t\nCookie: {cookie}"));
        assert_eq!(run(&chain, &bench).0, 401, "{cookie}");
        assert!(bench.services.calls().is_empty());
    }
    let status = |code: u16, body: &str| {
        let bench = Bench::new(&format!("GET /back?ticket=once\nCookie: {}", asked[0]));
        bench.services.answer(code, &[], body);
        run(&chain, &bench).0
    };
    let both = format!("<cas:authenticationFailure/>{SUCCESS}");
    for (code, body) in [
        (500, SUCCESS),
        (200, ""),
        (200, "<cas:authenticationFailure code=\"INVALID_TICKET\"/><cas:user>jack</cas:user>"),
        (200, "<cas:authenticationSuccess><cas:user></cas:user>"),
        (200, "<cas:authenticationSuccess><cas:user>jack"),
        (200, both.as_str()),
    ] {
        assert_eq!(status(code, body), 401, "{code} {body}");
    }
    let bench = Bench::new(&format!("GET /back?ticket=once\nCookie: {}", asked[0]));
    bench.services.fail(CallErrorKind::Timeout);
    assert_eq!(run(&chain, &bench).0, 401);
    assert_eq!(status(200, SUCCESS), 302);
    assert_eq!(status(200, SUCCESS), 401, "again");
    // What a browser would take for another site is not where a client returns.
    let (_, asked, _) = run(&chain, &Bench::new("GET //evil.test/a"));
    let bench = Bench::new(&format!("GET /back?ticket=other\nCookie: {}", asked[0]));
    assert_eq!(run(&chain, &bench).0, 401);
}

#[test]
fn sessions_belong_to_their_configuration() {
    let registry = registry();
    let compiled =
        |callback| testkit::chain(&registry, &json!({ "cas-auth": config(callback) })).expect("valid");
    let (one, two) = (compiled("/back"), compiled("https://a.test/back?x#y"));
    let (_, value) = {
        let session = logged_in(&one, "ST-9");
        let (name, value) = session.split_once('=').expect("a pair");
        (name.to_owned(), value.to_owned())
    };
    let (_, asked, location) = run(&two, &Bench::new("GET /a"));
    assert!(location.ends_with("service=https%3A%2F%2Fa.test%2Fback%3Fx%23y"), "{location}");
    assert_eq!(asked.len(), 1);
    let other = digest::digest(&digest::SHA256, b"http://cas.test/cas|https://a.test/back?x#y");
    let hex: String = other.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let bench = Bench::new(&format!("GET /a\nCookie: CAS_SESSION_{hex}={value}"));
    assert_eq!(run(&two, &bench).0, 302);
    let mut unsafe_cookie = config("/back");
    unsafe_cookie["cookie"]["samesite"] = json!("None");
    assert!(testkit::chain(&registry, &json!({ "cas-auth": unsafe_cookie })).is_err());
}

#[test]
fn a_full_store_makes_room() {
    let store = Store::default();
    let ticket = |number: usize| ("f".to_owned(), number.to_string());
    for number in 0..SESSIONS_MAX {
        assert!(store.add(&format!("s{number}"), ticket(number), number as u64 / 1000));
    }
    assert!(store.add("new", ticket(SESSIONS_MAX), 200), "the first goes");
    let kept = store.lock();
    assert_eq!((kept.sessions.len(), kept.tickets.len()), (SESSIONS_MAX, SESSIONS_MAX));
    drop(kept);
    assert!(store.add("late", ticket(SESSIONS_MAX + 1), 99 + SESSION_S));
    assert!(store.lock().sessions.len() < 10, "those that are over");
}
