//! A thread that speaks HTTP/2: a task for each stream that may be under way, all on one thread, over the h2 crate.
//!
//! Simpler than the HTTP/1.1 loop and dearer: HTTP/2's own work outweighs what a hand-written loop would save.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe::Receiver;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Mutex, Notify};
use tokio::task::LocalSet;

use super::connection::describe;
use super::tls::{facts, failure};
use crate::load::{Endpoint, ErrorKind, Fault, Nanos, Plan, Turn, now};

/// What the server may send unasked on a stream and on a connection: enough that a window update is never waited for.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How often the flag that ends the run is looked at, and how long a connection that failed is left alone.
const TICK: Duration = Duration::from_millis(100);

/// What the tasks of a thread share; never held over an await but for the timer.
struct Shared<'r> {
    turn: RefCell<Turn<'r>>,
    /// A timerfd: read like a pipe, which is how tokio takes descriptors without `unsafe`.
    timer: Mutex<Receiver>,
    begun: Notify,
    over: Notify,
    state: RefCell<Stage>,
}

/// How far a thread's part is.
#[derive(Default)]
struct Stage {
    sending: bool,
    ended: bool,
    in_flight: u64,
}

/// Runs a thread's part.
pub(crate) fn run(turn: Turn<'_>) -> Result<Turn<'_>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no event loop: {error}"))?;
    // LocalSet's tasks must own what they use, so the plan is shared by the turn's own reference, and the tasks are
    // joined here as parts of one future instead of being spawned.
    runtime.block_on(LocalSet::new().run_until(drive(turn)))
}

async fn drive(turn: Turn<'_>) -> Result<Turn<'_>, String> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)
        .map_err(io::Error::from)
        .and_then(Receiver::from_owned_fd_unchecked)
        .map_err(|error| format!("no timer: {error}"))?;
    let (plan, connections) = (turn.plan, turn.connections());
    let shared = Rc::new(Shared {
        turn: RefCell::new(turn),
        timer: Mutex::new(timer),
        begun: Notify::new(),
        over: Notify::new(),
        state: RefCell::new(Stage::default()),
    });
    let mut clients: Vec<Option<SendRequest<Bytes>>> = Vec::new();
    for _ in 0..connections {
        clients.push(connect(plan, &shared).await);
    }
    shared.turn.borrow_mut().start();
    shared.state.borrow_mut().sending = true;
    let work =
        futures_util::future::join_all(clients.into_iter().map(|client| keep_busy(plan, &shared, client)));
    // The clock goes first: it ends the others' waits.
    tokio::join!(watch(&shared), work);
    let shared = Rc::into_inner(shared).ok_or("a task outlived its thread")?;
    let mut turn = shared.turn.into_inner();
    turn.tally.unanswered += shared.state.into_inner().in_flight;
    Ok(turn)
}

/// Ends the run in its time.
async fn watch(shared: &Shared<'_>) {
    loop {
        let left = {
            let mut turn = shared.turn.borrow_mut();
            let at = now();
            turn.tick(at);
            let sent = turn.all_sent() && shared.state.borrow().in_flight == 0;
            if at >= turn.end() || turn.stopped() || turn.gives_up() || sent {
                break;
            }
            let next = turn.warm_at().unwrap_or_else(|| turn.end()).min(turn.end());
            Duration::from_nanos(next.saturating_sub(at)).min(TICK)
        };
        // A short run of a few requests must not wait for a tick.
        let _ = tokio::time::timeout(left, shared.over.notified()).await;
    }
    shared.turn.borrow_mut().sending_ended(now());
    shared.state.borrow_mut().sending = false;
    let open = shared.turn.borrow().is_open_loop();
    let until = tokio::time::Instant::now() + shared.turn.borrow().plan.timeout;
    while open && shared.state.borrow().in_flight > 0 && tokio::time::Instant::now() < until {
        if shared.turn.borrow().stopped() {
            break;
        }
        tokio::time::sleep(TICK / 10).await;
    }
    shared.state.borrow_mut().ended = true;
    shared.begun.notify_waiters();
}

/// One connection with all its streams, made again when it breaks.
async fn keep_busy(plan: &Plan, shared: &Rc<Shared<'_>>, first: Option<SendRequest<Bytes>>) {
    let mut client = first;
    while shared.state.borrow().sending {
        let Some(sender) = client.take() else {
            tokio::select! {
                () = ended(shared) => return,
                () = tokio::time::sleep(TICK) => {}
            }
            client = connect(plan, shared).await;
            continue;
        };
        let answers = Cell::new(0_u64);
        let streams = (0..plan.depth).map(|_| stream(plan, shared, sender.clone(), &answers));
        tokio::select! {
            _ = futures_util::future::join_all(streams) => {}
            () = ended(shared) => return,
        }
        // As with HTTP/1.1: one that gave answers is made again at once, one that never did is left alone for a while.
        if answers.get() > 0 && shared.state.borrow().sending {
            client = connect(plan, shared).await;
        }
    }
}

async fn ended(shared: &Shared<'_>) {
    loop {
        let notified = shared.begun.notified();
        if shared.state.borrow().ended {
            return;
        }
        notified.await;
    }
}

/// Sends request after request on a connection, until it breaks or the time is over.
async fn stream(plan: &Plan, shared: &Shared<'_>, mut sender: SendRequest<Bytes>, answers: &Cell<u64>) {
    let mut free_since = now();
    while let Some(intended) = next_start(shared).await {
        let sent = now();
        let intended = intended.unwrap_or(sent);
        {
            let mut turn = shared.turn.borrow_mut();
            if turn.is_open_loop() {
                turn.tally.note_send(intended, sent, free_since);
            } else {
                turn.tally.sent += 1;
            }
            shared.state.borrow_mut().in_flight += 1;
        }
        let answer = tokio::time::timeout(plan.timeout, exchange(plan, shared, &mut sender)).await;
        free_since = now();
        shared.state.borrow_mut().in_flight -= 1;
        let fault = match answer {
            Ok(Err(Failure::Unread)) => {
                shared.turn.borrow_mut().give_back(intended);
                return;
            }
            Ok(Ok((status, mismatch))) => {
                answers.set(answers.get() + 1);
                let mut turn = shared.turn.borrow_mut();
                turn.answered(intended, sent, free_since, status);
                mismatch.map(|words| Fault::new(ErrorKind::Body, words))
            }
            Ok(Err(Failure::Fault(fault))) => Some(fault),
            Err(_) => {
                let seconds = plan.timeout.as_secs_f64();
                Some(Fault::new(ErrorKind::Timeout, format!("no complete answer within {seconds} s")))
            }
        };
        if shared.turn.borrow().all_sent() {
            shared.over.notify_one();
        }
        if let Some(fault) = fault {
            let broken = !matches!(fault.kind, ErrorKind::Body | ErrorKind::Timeout);
            shared.turn.borrow_mut().tally.note_fault(1, fault.kind, || fault.message);
            if broken {
                shared.over.notify_one();
                return;
            }
        }
    }
}

/// Waits for the next start: `None` when sending is over, `Some(None)` for "now".
async fn next_start(shared: &Shared<'_>) -> Option<Option<Nanos>> {
    if !shared.turn.borrow().is_open_loop() {
        let mut turn = shared.turn.borrow_mut();
        let goes_on = shared.state.borrow().sending && !turn.is_over(now()) && turn.take_requests(1) == 1;
        return goes_on.then_some(None);
    }
    // Held while waiting: streams take the starts in the order in which they came to wait.
    let timer = shared.timer.lock().await;
    loop {
        let start = {
            let mut turn = shared.turn.borrow_mut();
            let at = now();
            if turn.is_over(at) || !shared.state.borrow().sending {
                return None;
            }
            if let Some(start) = turn.take_start(at) {
                return Some(Some(start));
            }
            turn.next_start()?.min(turn.end())
        };
        if sleep_until(&timer, start).await.is_err() {
            return None;
        }
    }
}

/// Tokio's own timers are good to a millisecond; a schedule needs better.
async fn sleep_until(timer: &Receiver, at: Nanos) -> io::Result<()> {
    let value = Timespec { tv_sec: (at / 1_000_000_000).cast_signed(), tv_nsec: (at % 1_000_000_000) as _ };
    let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    rustix::time::timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    timer.readable().await?;
    // How often it went off is of no interest. It may also be early, and is then asked again.
    let _ = timer.try_read(&mut [0; 8]);
    Ok(())
}

/// Why a request has no answer.
enum Failure {
    /// The server has certainly not read it: it ended the connection before, in its time.
    Unread,
    /// It failed.
    Fault(Fault),
}

/// One request and its answer: the status, and what was wrong with the body.
async fn exchange(
    plan: &Plan,
    shared: &Shared<'_>,
    sender: &mut SendRequest<Bytes>,
) -> Result<(u16, Option<String>), Failure> {
    std::future::poll_fn(|cx| sender.poll_ready(cx)).await.map_err(|error| failed(&error))?;
    let body = &plan.request.body;
    let head = head(plan).map_err(Failure::Fault)?;
    let (response, mut stream) =
        sender.send_request(head, body.is_empty()).map_err(|error| failed(&error))?;
    if !body.is_empty() {
        stream.send_data(body.clone(), true).map_err(|error| failed(&error))?;
    }
    let (head, mut body) = response.await.map_err(|error| failed(&error))?.into_parts();
    let mut checking = plan.check.as_ref().map(super::BodyCheck::begin);
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| failed(&error))?;
        shared.turn.borrow_mut().tally.bytes += data.len() as u64;
        if let Some(checking) = &mut checking {
            checking.add(&data);
        }
        // Given back at once. It fails only where the stream is gone, which the next read tells.
        let _ = body.flow_control().release_capacity(data.len());
    }
    let status = head.status.as_u16();
    let mut turn = shared.turn.borrow_mut();
    if turn.tally.server.is_none() {
        let server = head.headers.get(http::header::SERVER).and_then(|value| value.to_str().ok());
        turn.tally.server = Some(server.unwrap_or_default().to_owned());
    }
    let mismatch = match (checking, &plan.check) {
        (Some(checking), Some(check)) if status < 400 => checking.finish(check),
        _ => None,
    };
    Ok((status, mismatch))
}

fn head(plan: &Plan) -> Result<http::Request<()>, Fault> {
    let request = &plan.request;
    let scheme = if plan.tls.is_some() { "https" } else { "http" };
    let mut builder = http::Request::builder()
        .method(request.method.as_str())
        .version(http::Version::HTTP_2)
        .uri(format!("{scheme}://{}{}", request.authority, request.path));
    for (name, value) in &request.fields {
        builder = builder.header(name.as_str(), value.as_str());
    }
    builder.body(()).map_err(|error| Fault::new(ErrorKind::Write, format!("no HTTP/2 request: {error}")))
}

/// A server that ends a connection in its time says GOAWAY with no error; h2 tells so those requests alone that it has
/// not read, as RFC 9113 section 6.8 has it.
fn failed(error: &h2::Error) -> Failure {
    let in_its_time = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if in_its_time || refused { Failure::Unread } else { Failure::Fault(broken(error)) }
}

fn broken(error: &h2::Error) -> Fault {
    match error.get_io() {
        Some(error) => Fault::new(ErrorKind::Read, format!("the connection broke: {}", describe(error))),
        None => Fault::new(ErrorKind::Protocol, format!("HTTP/2: {error}")),
    }
}

/// Makes a connection; a failure is counted and tried again later.
async fn connect(plan: &Plan, shared: &Rc<Shared<'_>>) -> Option<SendRequest<Bytes>> {
    // On the heap: TLS makes it large, and it is rare.
    let opening = Box::pin(open(plan, shared));
    let made = tokio::time::timeout(plan.timeout, opening).await.unwrap_or_else(|_| {
        let seconds = plan.timeout.as_secs_f64();
        Err(Fault::new(ErrorKind::Connect, format!("no connection within {seconds} s")))
    });
    let mut turn = shared.turn.borrow_mut();
    match made {
        Ok(sender) => {
            turn.tally.connects += 1;
            Some(sender)
        }
        Err(fault) => {
            turn.tally.note_fault(1, fault.kind, || fault.message);
            None
        }
    }
}

async fn open(plan: &Plan, shared: &Rc<Shared<'_>>) -> Result<SendRequest<Bytes>, Fault> {
    let refused = |error: &io::Error| {
        Fault::new(ErrorKind::Connect, format!("no connection to {}: {}", plan.endpoint, describe(error)))
    };
    match &plan.endpoint {
        Endpoint::Unix(path) => {
            shake_hands(UnixStream::connect(path).await.map_err(|error| refused(&error))?).await
        }
        Endpoint::Tcp(address) => {
            let socket = TcpStream::connect(address).await.map_err(|error| refused(&error))?;
            socket.set_nodelay(true).map_err(|error| refused(&error))?;
            let Some(tls) = &plan.tls else { return shake_hands(socket).await };
            let connector = tokio_rustls::TlsConnector::from(tls.config.clone());
            let stream = connector.connect(tls.name.clone(), socket).await.map_err(|error| {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                let words = inner.map_or_else(|| format!("no TLS session: {}", describe(&error)), failure);
                Fault::new(ErrorKind::Tls, words)
            })?;
            let session = stream.get_ref().1;
            if session.alpn_protocol() != Some(b"h2") {
                return Err(Fault::new(ErrorKind::Tls, "the server does not offer HTTP/2"));
            }
            let facts = facts(session);
            shared.turn.borrow_mut().tally.tls.get_or_insert(facts);
            shake_hands(stream).await
        }
    }
}

async fn shake_hands<S>(stream: S) -> Result<SendRequest<Bytes>, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        .handshake::<_, Bytes>(stream)
        .await
        .map_err(|error| broken(&error))?;
    // It ends when the connection does; the streams are told why.
    tokio::task::spawn_local(async move {
        let _ = connection.await;
    });
    Ok(sender)
}
