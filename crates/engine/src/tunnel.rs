//! Bytes both ways until both sides are done: after `101 Switching Protocols`, and on stream routes. A tunnel in which
//! nothing moves holds no buffer: there may be many thousands of them.

use crate::buffers::Buffers;
use crate::io;
use crate::timer::Timer;
use crate::transport::Stream;
use std::cell::Cell;
use tokio::io::{AsyncRead, AsyncWrite};

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

/// Copies both ways until both sides have ended, one has failed, or neither has sent anything for a while. `ahead` is
/// what the client has sent already; `deadline` gives the end of such a while, from now.
pub(crate) async fn run(
    Sides { client, upstream }: Sides<'_>,
    ahead: &[u8],
    buffers: &Buffers,
    timer: &Timer,
    deadline: impl Fn() -> u64,
) -> Copied {
    timer.arm(deadline());
    if io::write_all(upstream, ahead, timer).await.is_err() {
        return Copied::default();
    }
    let to_client = Cell::new(0);
    let to_upstream = Cell::new(0);
    let (mut client_read, mut client_write) = client.split();
    let (mut upstream_read, mut upstream_write) = upstream.split();
    // The first failure ends both directions; a proper end of one lets the other go on.
    let _ = tokio::try_join!(
        pump(&mut client_read, &mut upstream_write, buffers, timer, &deadline, &to_upstream),
        pump(&mut upstream_read, &mut client_write, buffers, timer, &deadline, &to_client),
    );
    Copied { to_client: to_client.get(), to_upstream: to_upstream.get() }
}

async fn pump<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    from: &mut R,
    to: &mut W,
    buffers: &Buffers,
    timer: &Timer,
    deadline: &impl Fn() -> u64,
    copied: &Cell<u64>,
) -> std::io::Result<()> {
    loop {
        timer.arm(deadline());
        let (buffer, count) = io::read_lent(from, buffers, timer).await?;
        let written = match count {
            0 => io::shutdown(to, timer).await,
            _ => io::write_all(to, &buffer[..count], timer).await,
        };
        buffers.put_relay(buffer);
        written?;
        if count == 0 {
            return Ok(());
        }
        copied.set(copied.get() + count as u64);
    }
}
