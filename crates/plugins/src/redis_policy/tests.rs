//! The client against servers that the tests play, over connections in memory.

use crate::limit_count;
use plugin::testkit::{self, Bench};
use plugin::{
    Answer, Call, CallError, CallErrorKind, Chain, Flow, Io, LocalFuture, Registry, Services, Task,
    UpstreamChoice,
};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::oneshot;

/// What a server does with one connection, and which one it is.
type Serve = Rc<dyn Fn(Server, usize) -> LocalFuture<()>>;

/// Services whose connections lead to a server of the test.
struct Net {
    serve: Serve,
    connections: Cell<usize>,
}

/// The server's end of a connection.
struct Server {
    stream: DuplexStream,
    read: Vec<u8>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

impl Server {
    /// The next command's name and keys: `None` once the other side has closed.
    async fn command(&mut self) -> Option<String> {
        loop {
            if let Ok(value) = redis::parse_redis_value(&self.read) {
                self.read.clear();
                let redis::Value::Array(parts) = value else { panic!("{value:?}") };
                let texts = parts.iter().map(|part| match part {
                    redis::Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    other => panic!("{other:?}"),
                });
                return Some(texts.collect::<Vec<_>>().join(" "));
            }
            let mut byte = [0];
            if self.stream.read(&mut byte).await.ok()? == 0 {
                return None;
            }
            self.read.push(byte[0]);
        }
    }

    async fn reply(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).await;
    }
}

impl Services for Net {
    fn sleep(&self, time: Duration) -> LocalFuture<()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn call(&self, _: &UpstreamChoice, _: Call) -> LocalFuture<Result<Answer, CallError>> {
        Box::pin(async { Err(CallError { kind: CallErrorKind::Unavailable, reason: "not here" }) })
    }

    fn connect(&self, _: &UpstreamChoice, _: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        let (near, far) = tokio::io::duplex(1 << 16);
        self.connections.set(self.connections.get() + 1);
        let serving = (self.serve)(Server { stream: far, read: Vec::new() }, self.connections.get());
        tokio::task::spawn_local(serving);
        Box::pin(async move {
            // Connecting takes a turn of the others.
            tokio::task::yield_now().await;
            Ok(Box::new(near) as Box<dyn Io>)
        })
    }

    fn connect_unix(&self, _: &Path, _: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        Box::pin(async { Err(CallError { kind: CallErrorKind::Unavailable, reason: "not here" }) })
    }

    fn spawn(&self, task: LocalFuture<()>) -> Task {
        let task = tokio::task::spawn_local(task).abort_handle();
        Task::new(move || task.abort())
    }
}

fn chain(timeout_ms: u64) -> Chain {
    let registry = Registry::new([limit_count::def()], serde_json::Map::new()).expect("a valid schema");
    let config = json!({
        "count": 100, "time_window": 60, "policy": "redis", "redis_host": "redis", "redis_timeout": timeout_ms
    });
    testkit::chain(&registry, &json!({ "limit-count": config })).expect("valid")
}

/// The status that one request gets, 0 where it passes, and its quota's header.
async fn request(chain: &Chain, bench: &Bench, services: &Rc<dyn Services>) -> (u16, Option<String>) {
    let mut exchange = bench.exchange();
    exchange.services = services;
    let mut flow = chain.access[0].hook.access(&mut exchange);
    let status = loop {
        flow = match flow {
            Flow::Next => break 0,
            Flow::Reply(reply) => break reply.status,
            Flow::Wait(future) => {
                let resume = future.await;
                resume(&mut exchange)
            }
            other => panic!("{other:?}"),
        };
    };
    let remaining = exchange.reply_headers.get(b"x-ratelimit-remaining").flatten();
    (status, remaining.map(|value| String::from_utf8_lossy(value).into_owned()))
}

/// Runs `test` with services whose connections `serve` serves.
fn run<F: Future<Output = ()>>(
    serve: impl Fn(Server, usize) -> LocalFuture<()> + 'static,
    test: impl FnOnce(Rc<Net>, Rc<dyn Services>) -> F,
) {
    let net = Rc::new(Net { serve: Rc::new(serve), connections: Cell::new(0) });
    let services: Rc<dyn Services> = Rc::clone(&net) as _;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test(net, services));
}

fn passed(remaining: &str) -> (u16, Option<String>) {
    (0, Some(remaining.to_owned()))
}

#[test]
fn requests_share_one_connection_and_need_no_reply_before_the_next_is_sent() {
    // Replies when three commands are there, in their order.
    let serve = |mut server: Server, _| {
        let serving: LocalFuture<()> = Box::pin(async move {
            for _ in 0..3 {
                assert!(server.command().await.is_some_and(|command| command.starts_with("EVALSHA ")));
            }
            for consumed in 1..=3 {
                server.reply(&format!("*2\r\n:{consumed}\r\n:60000\r\n")).await;
            }
            server.command().await;
        });
        serving
    };
    run(serve, |net, services| async move {
        // A bench is a worker.
        let (chain, bench) = (chain(5000), Bench::new("GET /"));
        let ask = || request(&chain, &bench, &services);
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        assert_eq!([first, second, third], ["99", "98", "97"].map(passed));
        assert_eq!(net.connections.get(), 1);
    });
}

#[test]
fn a_script_is_sent_to_a_server_that_does_not_know_it() {
    let seen = Rc::<RefCell<Vec<String>>>::default();
    let noted = Rc::clone(&seen);
    let serve = move |mut server: Server, _| {
        let seen = Rc::clone(&noted);
        let serving: LocalFuture<()> = Box::pin(async move {
            while let Some(command) = server.command().await {
                let known = command.starts_with("EVAL ");
                seen.borrow_mut().push(command.split(' ').next().unwrap_or_default().to_owned());
                server
                    .reply(if known { "*2\r\n:1\r\n:60000\r\n" } else { "-NOSCRIPT No matching script.\r\n" })
                    .await;
            }
        });
        serving
    };
    run(serve, |_, services| async move {
        let (chain, bench) = (chain(5000), Bench::new("GET /"));
        assert_eq!(request(&chain, &bench, &services).await, passed("99"));
        assert_eq!(*seen.borrow(), ["EVALSHA", "EVAL"]);
    });
}

#[test]
fn a_reply_that_comes_too_late_is_nobodys() {
    let (told, waits) = oneshot::channel::<()>();
    let (told, waits) = (RefCell::new(Some(told)), RefCell::new(Some(waits)));
    let serve = move |mut server: Server, number| {
        if number == 2
            && let Some(told) = told.borrow_mut().take()
        {
            let _ = told.send(());
        }
        let waits = waits.borrow_mut().take();
        let serving: LocalFuture<()> = match number {
            // Answers when there is another connection.
            1 => Box::pin(async move {
                server.command().await;
                let _ = waits.expect("the first").await;
                server.reply("*2\r\n:77\r\n:60000\r\n").await;
            }),
            _ => Box::pin(async move {
                while server.command().await.is_some() {
                    server.reply("*2\r\n:5\r\n:60000\r\n").await;
                }
            }),
        };
        serving
    };
    run(serve, |net, services| async move {
        let (chain, bench) = (chain(50), Bench::new("GET /"));
        assert_eq!(request(&chain, &bench, &services).await.0, 500);
        assert_eq!(request(&chain, &bench, &services).await, passed("95"));
        assert_eq!(net.connections.get(), 2);
    });
}

#[test]
fn a_connection_that_ended_is_replaced_and_one_that_ends_again_is_not() {
    let serve = |mut server: Server, number| {
        let serving: LocalFuture<()> = Box::pin(async move {
            // The first two end after a reply, the others at once.
            if number < 3 && server.command().await.is_some() {
                server.reply(&format!("*2\r\n:{number}\r\n:60000\r\n")).await;
            }
        });
        serving
    };
    run(serve, |net, services| async move {
        let (chain, bench) = (chain(5000), Bench::new("GET /"));
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(request(&chain, &bench, &services).await);
        }
        assert_eq!(statuses, [passed("99"), passed("98"), (500, None)]);
        assert_eq!(net.connections.get(), 3);
    });
}

#[test]
fn lies_are_errors() {
    let lies = [
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n$3\r\nabc\r\n",
        "*1\r\n:1\r\n",
        "*3\r\n:1\r\n:1\r\n:1\r\n",
        "-ERR unknown command\r\n",
        "-\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$99999999999999999999\r\n",
        "$-99\r\nx",
        "*9223372036854775807\r\n:1\r\n",
        "*4294967296\r\n*4294967296\r\n*4294967296\r\n",
        "%9223372036854775807\r\n:1\r\n",
        "\0\0\0\0",
    ];
    for lie in lies {
        let serve = move |mut server: Server, _| {
            let serving: LocalFuture<()> = Box::pin(async move {
                while server.command().await.is_some() {
                    server.reply(lie).await;
                }
            });
            serving
        };
        run(serve, |_, services| async move {
            let (chain, bench) = (chain(100), Bench::new("GET /"));
            assert_eq!(request(&chain, &bench, &services).await, (500, None), "{lie:?}");
        });
    }
}

#[test]
fn a_reply_without_end_is_cut_off() {
    let sent = Rc::<Cell<usize>>::default();
    let counted = Rc::clone(&sent);
    let serve = move |mut server: Server, _| {
        let sent = Rc::clone(&counted);
        let serving: LocalFuture<()> = Box::pin(async move {
            server.command().await;
            server.reply("$9999999999\r\n").await;
            let piece = vec![b'x'; 1 << 16];
            while server.stream.write_all(&piece).await.is_ok() {
                sent.set(sent.get() + piece.len());
            }
        });
        serving
    };
    run(serve, |_, services| async move {
        let (chain, bench) = (chain(60_000), Bench::new("GET /"));
        assert_eq!(request(&chain, &bench, &services).await.0, 500);
        assert!(sent.get() < 8 << 20, "{}", sent.get());
    });
}

#[test]
fn configurations_with_addresses_that_are_none_are_refused() {
    let registry = Registry::new([limit_count::def()], serde_json::Map::new()).expect("a valid schema");
    let with = |more: Value| {
        let mut config = json!({ "count": 1, "time_window": 60 });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        testkit::chain(&registry, &json!({ "limit-count": config })).map(drop)
    };
    let sentinel = |port: u64| {
        json!({ "policy": "redis-sentinel", "redis_master_name": "m",
            "redis_sentinels": [{ "host": "a1", "port": port }] })
    };
    let cluster = |node: &str| json!({ "policy": "redis-cluster", "redis_cluster_name": "c", "redis_cluster_nodes": ["a:1", node] });
    for (config, path) in [
        (json!({ "policy": "redis", "redis_host": "a1" }), None),
        (
            json!({ "policy": "redis", "redis_host": "a1", "redis_port": 70_000 }),
            Some("/limit-count/redis_port"),
        ),
        (cluster("b:2"), None),
        (cluster("bb"), Some("/limit-count/redis_cluster_nodes/1")),
        (sentinel(1), None),
        (sentinel(70_000), Some("/limit-count/redis_sentinels/0/port")),
    ] {
        let found = with(config.clone()).err().map(|errors| errors[0].path.clone());
        assert_eq!(found.as_deref(), path, "{config}");
    }
}
