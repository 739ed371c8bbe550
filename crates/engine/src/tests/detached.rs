//! Requests that plugins send on after their exchange.

use super::fixture::{engine, node};
use plugin::{CallTimeouts, Exchange, Flow, Hooks, NotDetached, OnBeforeProxy, UpstreamChoice};
use serde_json::json;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sends a copy of each request to the upstream `mirror`, and its own result to the test.
struct Mirrors(Mutex<std::sync::mpsc::Sender<String>>);

impl OnBeforeProxy for Mirrors {
    fn before_proxy(&self, exchange: &mut Exchange<'_>) -> Flow {
        let copy = match exchange.detach(16) {
            Ok(copy) => copy,
            Err(NotDetached::Unread) => return Flow::Body(16),
            Err(NotDetached::TooLong) => exchange.detach_head(),
            Err(NotDetached::NoRoom) => return Flow::Next,
        };
        let (services, told) = (Rc::clone(exchange.services), self.0.lock().expect("no panic").clone());
        let timeouts = CallTimeouts::all(Duration::from_secs(30));
        let sending = copy.send(exchange.services, &UpstreamChoice::Id("mirror".into()), timeouts);
        let task = services.spawn(Box::pin(async move {
            let answer = match sending.await {
                Ok(answer) => answer.collect(100).await.map(|(status, ..)| status.to_string()),
                Err(error) => Err(error),
            };
            let _ = told.send(answer.unwrap_or_else(|error| error.to_string()));
        }));
        task.detach();
        Flow::Next
    }
}

fn next(from: &Receiver<String>) -> String {
    from.recv_timeout(Duration::from_secs(30)).expect("in time")
}

#[test]
fn a_copy_outlives_its_exchange() {
    let upstream = node(|_| Some("good"));
    let (told, results) = channel();
    let (saw, seen) = channel();
    let (allow, allowed) = channel::<()>();
    // Answers once it is allowed to.
    let mirror = node(move |request| {
        let _ = saw.send(request.to_owned());
        let _ = allowed.recv();
        Some("ignored")
    });
    let hook = Arc::new(Mirrors(Mutex::new(told)));
    let mut served =
        engine(&[upstream], move || Hooks { before_proxy: Some(Arc::clone(&hook) as _), ..Hooks::default() });
    let nodes = json!({ "type": "roundrobin", "nodes": { mirror.to_string(): 1 } });
    served.control.put("/upstreams/mirror", &nodes);
    for (length, body, copied) in [(4, "text", "text"), (17, "seventeen letters", "")] {
        let head = format!("POST /a?b HTTP/1.1\r\nHost: shop\r\nX-Kept: 1\r\nContent-Length: {length}");
        let answer = served.ask(&format!("{head}\r\nConnection: close\r\n\r\n{body}"));
        assert!(answer.ends_with("good"), "{answer}");
        let request = next(&seen);
        assert!(request.starts_with("POST /a?b HTTP/1.1\r\nHost: shop\r\n"), "{request}");
        assert!(request.contains("X-Kept: 1\r\n") && !request.contains("close"), "{request}");
        assert!(request.ends_with(&format!("\r\n\r\n{copied}")), "{request}");
        assert!(results.try_recv().is_err(), "the client had its answer before");
        allow.send(()).expect("the mirror waits");
        assert_eq!(next(&results), "200");
    }
    // A mirror that is gone harms nobody.
    served.control.delete("/upstreams/mirror");
    let answer = served.ask("GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
    assert!(answer.ends_with("good"), "{answer}");
    assert_eq!(next(&results), "the upstream does not exist");
}
