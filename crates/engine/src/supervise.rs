//! Workers that panic are replaced. A panic in a connection's task ends that connection alone; one in a worker's own loop
//! would leave the process with a worker less, and its share of the connections unanswered, for good.

use crate::worker::{self, Start};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Panics of one worker within [`PANICS_WITHIN`] that are answered by another start. A worker that fails more often fails
/// at once each time: the process ends, so that whatever started it learns of it.
const PANICS_MAX: usize = 5;

/// How far back panics count.
const PANICS_WITHIN: Duration = Duration::from_secs(60);

/// The exit status of a process that can't go on (`EX_SOFTWARE` of sysexits).
const EXIT_STATUS: i32 = 70;

/// Runs a worker until it is told to end, and starts it again where it panics. The connections of one that panicked are
/// closed.
pub(crate) fn run(number: usize, mut start: Start) {
    let mut panics = Panics::default();
    while let Err(message) = caught(|| worker::run(&mut start)) {
        if !start.is_serving() {
            tracing::error!(worker = number, "worker panicked while it ended: {message}");
            return;
        }
        if !panics.may_restart(Instant::now()) {
            tracing::error!(
                worker = number,
                "worker panicked: {message}; more than {PANICS_MAX} panics in {} s, the process exits with status {EXIT_STATUS}",
                PANICS_WITHIN.as_secs()
            );
            std::process::exit(EXIT_STATUS);
        }
        tracing::error!(
            worker = number,
            "worker panicked: {message}; its connections are closed, it is restarted"
        );
        if let Err(error) = start.listen_again() {
            tracing::error!(worker = number, %error, "worker can't be restarted, the process exits with status {EXIT_STATUS}");
            std::process::exit(EXIT_STATUS);
        }
    }
}

/// Runs `body`. An error is what it panicked with.
fn caught(body: impl FnOnce()) -> Result<(), String> {
    // What a worker leaves half changed is its own, and goes with it; what workers share is atomic or locked.
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| message(&*panic))
}

/// The words of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// The last panics of a worker.
#[derive(Debug, Default)]
struct Panics(Vec<Instant>);

impl Panics {
    /// Counts a panic. Returns whether the worker may be started again.
    fn may_restart(&mut self, now: Instant) -> bool {
        self.0.retain(|at| now.duration_since(*at) < PANICS_WITHIN);
        self.0.push(now);
        self.0.len() <= PANICS_MAX
    }
}

/// A panic in the loop of a worker, for tests.
#[cfg(test)]
pub(crate) mod fault {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether the next tick of any worker panics.
    pub(crate) static ARMED: AtomicBool = AtomicBool::new(false);

    pub(crate) fn strike() {
        assert!(!ARMED.swap(false, Ordering::AcqRel), "injected fault");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientLimits, EngineConfig, Listen, Serves, Streams};
    use crate::{Bound, Context, RealIp};
    use observe::Metrics;
    use snapshot::{Keepalive, Published, Snapshot};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    const LIMIT: Duration = Duration::from_secs(60);

    fn config() -> EngineConfig {
        EngineConfig {
            listen: vec![Listen {
                address: ([127, 0, 0, 1], 0).into(),
                optional: false,
                tls: false,
                proxy_protocol: false,
                serves: Serves::Http,
            }],
            workers: 1,
            worker_connections: 100,
            name_servers: Vec::new(),
            client: ClientLimits {
                keepalive_timeout: LIMIT,
                keepalive_requests: 1000,
                handshake_timeout: LIMIT,
                header_timeout: LIMIT,
                body_timeout: LIMIT,
                send_timeout: LIMIT,
                max_body_bytes: 0,
            },
            keepalive: Keepalive { size: 1, idle_timeout: None, requests: 1 },
            server: "test".to_owned(),
            show_upstream_status: false,
            trusted_addresses: Vec::new(),
            real_ip: RealIp::default(),
            paths: plugin::PathRules::default(),
            body_vars: plugin::BodyLimits::default(),
            http2: false,
            tls: None,
            upstream_tls: Arc::new(tls::Upstreams::new(tls::Trust::default()).expect("nothing to read")),
            gateway: plugin::Gateway::default(),
            mount: None,
            access_log: None,
            streams: Streams::default(),
        }
    }

    /// The status line of the answer to a request on `stream`.
    fn ask(stream: &mut TcpStream) -> std::io::Result<String> {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let mut answer = [0; 22];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    #[test]
    fn a_worker_that_panics_is_replaced_on_the_same_port() {
        let bound = Bound::new(config()).expect("a free port");
        let address: SocketAddr = bound.addresses()[0];
        let published = Arc::new(Published::new(Arc::new(Snapshot::default())));
        let engine = bound.start(&Context { published, metrics: Arc::new(Metrics::default()) });
        let engine = engine.expect("threads");
        for _ in 0..2 {
            let mut idle = TcpStream::connect(address).expect("listened on");
            assert_eq!(ask(&mut idle).expect("answered"), "HTTP/1.1 404 Not Found");
            fault::ARMED.store(true, Ordering::Release);
            // Closed with its worker; the rest of the answer may come first.
            let _ = idle.read_to_end(&mut Vec::new());
            assert!(!fault::ARMED.load(Ordering::Acquire));
            // The sockets of the worker before may still be closing.
            let again = || TcpStream::connect(address).and_then(|mut stream| ask(&mut stream));
            let answer = std::iter::repeat_with(again).find_map(Result::ok);
            assert_eq!(answer.as_deref(), Some("HTTP/1.1 404 Not Found"));
        }
        engine.stop();
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_panic_is_known_by_its_words() {
        assert_eq!(caught(|| {}), Ok(()));
        assert_eq!(caught(|| panic!("plain")), Err("plain".to_owned()));
        assert_eq!(caught(|| panic!("with {}", 1)), Err("with 1".to_owned()));
        assert_eq!(caught(|| std::panic::panic_any(1)), Err("no message".to_owned()));
    }

    #[test]
    fn a_worker_that_panics_again_and_again_is_given_up() {
        let (mut panics, start) = (Panics::default(), Instant::now());
        let mut restarted = |seconds| panics.may_restart(start + Duration::from_secs(seconds));
        assert!((0..PANICS_MAX as u64).all(&mut restarted));
        assert!(!restarted(5));
        assert!(restarted(300), "that was long ago");
    }
}
