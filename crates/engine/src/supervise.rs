//! Workers that panic are replaced, or end the process, as configured. A panic in a connection's task ends that connection
//! alone; one in a worker's own loop would leave the process with a worker less, and its share of the connections
//! unanswered, for good.

use crate::serve::{self, Start};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use stdx::panics::{self, PANICS_MAX, PANICS_WITHIN, Panics};

/// The exit status of a process that can't go on (`EX_SOFTWARE` of sysexits).
const EXIT_STATUS: i32 = 70;

/// Runs a worker until it is told to end, and starts it again where it panics. The connections of one that panicked are
/// closed.
pub(crate) fn run(mut start: Start) {
    let number = start.number;
    let mut panics = Panics::default();
    while let Err(message) = caught(|| serve::run(&mut start)) {
        if !start.is_serving() {
            tracing::error!(worker = number, "worker panicked while it ended: {message}");
            return;
        }
        if start.config.exit_on_panic {
            tracing::error!(
                worker = number,
                "worker panicked: {message}; the process exits with status {EXIT_STATUS}"
            );
            std::process::exit(EXIT_STATUS);
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
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| panics::message(&*panic))
}

#[cfg(test)]
mod tests {
    use crate::tests::fault;
    use crate::tests::fixture::config;
    use crate::{Bound, Context, EngineConfig};
    use observe::Metrics;
    use snapshot::{Published, Snapshot};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;

    /// The status line of the answer to a request on `stream`.
    fn ask(stream: &mut TcpStream) -> std::io::Result<String> {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let mut answer = [0; 22];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    #[test]
    fn a_worker_that_panics_is_replaced_on_the_same_port() {
        let bound =
            Bound::new(EngineConfig { server: "replaced".to_owned(), ..config() }).expect("a free port");
        let address: SocketAddr = bound.addresses()[0];
        let published = Arc::new(Published::new(Arc::new(Snapshot::default())));
        let engine = bound.start(&Context { published, metrics: Arc::new(Metrics::default()) });
        let engine = engine.expect("threads");
        for _ in 0..2 {
            let mut idle = TcpStream::connect(address).expect("listened on");
            assert_eq!(ask(&mut idle).expect("answered"), "HTTP/1.1 404 Not Found");
            fault::arm("replaced");
            // Closed with its worker; the rest of the answer may come first.
            let _ = idle.read_to_end(&mut Vec::new());
            // The sockets of the worker before may still be closing.
            let again = || TcpStream::connect(address).and_then(|mut stream| ask(&mut stream));
            let answer = std::iter::repeat_with(again).find_map(Result::ok);
            assert_eq!(answer.as_deref(), Some("HTTP/1.1 404 Not Found"));
        }
        engine.stop();
        assert!(TcpStream::connect(address).is_err());
    }
}
