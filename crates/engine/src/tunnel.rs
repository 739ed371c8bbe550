//! Bytes both ways until both sides are done: after `101 Switching Protocols`, and on stream routes. A tunnel in which
//! nothing moves holds no buffer: there may be many thousands of them.

use crate::io::{self, Sink};
use crate::timer::Timer;
use crate::transport::Stream;
use crate::worker::Worker;
use std::cell::Cell;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::AsyncRead;

/// The two ends of a tunnel.
pub(crate) struct Sides<'t> {
    pub(crate) client: &'t mut Stream,
    pub(crate) upstream: &'t mut Stream,
}

/// Bytes that were copied.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    pub(crate) to_client: u64,
    /// Without what the client had sent before.
    pub(crate) to_upstream: u64,
}

/// Copies both ways until both sides have ended, one has failed, neither has sent anything for the time `idle`, or one has
/// taken nothing of what the other sent for as long. `ahead` is what the client has sent already.
pub(crate) async fn run(
    Sides { client, upstream }: Sides<'_>,
    ahead: &[u8],
    worker: &Worker,
    timer: &Timer,
    idle: Duration,
) -> Copied {
    if io::write_all(upstream, ahead, timer.within(idle)).await.is_err() {
        return Copied::default();
    }
    let idle = Idle { worker, timer, timeout: idle, ends_at_ms: Cell::new(0) };
    idle.restart();
    let to_client = Cell::new(0);
    let to_upstream = Cell::new(0);
    let (mut client_read, mut client_write) = client.split();
    let (mut upstream_read, mut upstream_write) = upstream.split();
    // The first failure ends both directions; a proper end of one lets the other go on.
    let _ = tokio::try_join!(
        pump(&mut client_read, &mut upstream_write, &idle, &to_upstream),
        pump(&mut upstream_read, &mut client_write, &idle, &to_client),
    );
    Copied { to_client: to_client.get(), to_upstream: to_upstream.get() }
}

/// The time that a tunnel may be silent: one for both directions.
struct Idle<'i> {
    worker: &'i Worker,
    timer: &'i Timer,
    timeout: Duration,
    ends_at_ms: Cell<u64>,
}

impl Idle<'_> {
    /// Bytes have come.
    fn restart(&self) {
        self.ends_at_ms.set(self.worker.clock.deadline_ms(self.timeout));
    }

    fn is_over(&self) -> bool {
        self.worker.clock.now_ms() >= self.ends_at_ms.get()
    }
}

async fn pump<R: AsyncRead + Unpin, W: Sink>(
    from: &mut R,
    to: &mut W,
    idle: &Idle<'_>,
    copied: &Cell<u64>,
) -> std::io::Result<()> {
    let buffers = &idle.worker.buffers;
    loop {
        let limit = idle.timer.by(idle.ends_at_ms.get());
        let (buffer, count) = match io::read_lent(from, buffers, limit).await {
            // The other side has sent something meanwhile.
            Err(error) if error.kind() == ErrorKind::TimedOut && !idle.is_over() => continue,
            read => read?,
        };
        idle.restart();
        let limit = idle.timer.within(idle.timeout);
        let written = match count {
            0 => io::shutdown(to, limit).await,
            _ => io::write_all(to, &buffer[..count], limit).await,
        };
        buffers.put_relay(buffer);
        written?;
        if count == 0 {
            return Ok(());
        }
        copied.set(copied.get() + count as u64);
    }
}
