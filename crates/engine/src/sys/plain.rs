//! The two calls that every request makes twice, `recv` and `send`, made straight to the kernel. tokio makes them through
//! the C library, where each is a point at which its thread may be cancelled: 100 instructions more for a request.

use rustix::net::{self, RecvFlags, SendFlags};
use std::io;
use std::task::{Context, Poll, ready};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop;

/// Reads what is there into the room that is left: nothing more at the end of the stream.
///
/// The read comes first, and tokio is asked to wake the task only where nothing is there: a task that was woken because bytes
/// came saves that question. Of the task's budget (`tokio::task::coop`) only a read that fills the room takes a unit. After
/// any other read the socket is empty, and the task has to wait for the event loop in any case.
///
/// # Errors
/// The socket's.
#[inline]
#[allow(
    unsafe_code,
    reason = "tokio asks for this promise about memory that nothing has been written to yet"
)]
pub(crate) fn poll_recv(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    into: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    if !coop::has_budget_remaining() {
        // Pending: the task is polled again after the others.
        ready!(stream.poll_read_ready(cx))?;
    }
    let count = loop {
        // SAFETY: nothing is made uninitialised: `recv` only writes.
        let room = unsafe { into.unfilled_mut() };
        let mut count = 0;
        let received = stream.try_io(Interest::READABLE, || {
            let ((filled, left), _) = net::recv(stream, &mut *room, RecvFlags::empty())?;
            count = filled.len();
            // Room that is left means that the socket is empty now. Saying so spares a call that would find it out.
            if 0 < count && !left.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match received {
            Ok(()) => {
                if count > 0 {
                    // Takes a unit of the budget; the socket is still ready.
                    let _ = stream.poll_read_ready(cx);
                }
                break count;
            }
            // The error of above.
            Err(_) if count > 0 => break count,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
            Err(_) => ready!(stream.poll_read_ready(cx))?,
        }
    };
    // SAFETY: so many bytes at the beginning of the room were written.
    unsafe { into.assume_init(count) };
    into.advance(count);
    Poll::Ready(Ok(()))
}

/// Sends at once what the socket takes: how many bytes that are, 0 when it takes none now.
///
/// # Errors
/// The socket's.
#[inline]
pub(crate) fn send_now(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let send = || Ok(net::send(stream, bytes, SendFlags::NOSIGNAL)?);
    match stream.try_io(Interest::WRITABLE, send) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

/// Whether nothing has come: asked of the socket only where the event loop noted something.
#[inline]
pub(crate) fn is_quiet(stream: &TcpStream) -> bool {
    let noted = stream.try_io(Interest::READABLE, || Ok(())).is_ok();
    !noted || stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    async fn recv(stream: &TcpStream, room: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; room];
        let mut into = ReadBuf::new(&mut bytes);
        poll_fn(|cx| poll_recv(stream, cx, &mut into)).await?;
        Ok(into.filled().to_vec())
    }

    #[tokio::test]
    async fn what_is_left_is_read_next_and_then_the_end() {
        let (near, mut far) = pair().await;
        far.write_all(b"abcdef").await.unwrap();
        assert_eq!(recv(&near, 4).await.unwrap(), b"abcd", "all the room was taken");
        assert_eq!(recv(&near, 4).await.unwrap(), b"ef");
        far.write_all(b"gh").await.unwrap();
        far.shutdown().await.unwrap();
        assert_eq!(recv(&near, 4).await.unwrap(), b"gh", "with the end right behind it");
        assert_eq!(recv(&near, 4).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn a_read_waits_for_what_comes_after_an_emptied_socket() {
        let (near, mut far) = pair().await;
        for _ in 0..3 {
            far.write_all(b"ab").await.unwrap();
            assert_eq!(recv(&near, 4).await.unwrap(), b"ab");
            let nothing = tokio::time::timeout(std::time::Duration::from_millis(5), recv(&near, 4)).await;
            assert!(nothing.is_err(), "{nothing:?}");
        }
    }

    #[tokio::test]
    async fn a_socket_that_is_never_empty_lets_others_have_their_turn() {
        let (near, mut far) = pair().await;
        far.write_all(&[0; 1000]).await.unwrap();
        near.readable().await.unwrap();
        let (mut read, mut turns) = (0, 0);
        poll_fn(|cx| {
            turns += 1;
            let mut byte = [0];
            while read < 1000 {
                ready!(poll_recv(&near, cx, &mut ReadBuf::new(&mut byte))).unwrap();
                read += 1;
            }
            Poll::Ready(())
        })
        .await;
        // tokio gives a task 128 operations at a time.
        assert!(turns >= 1000 / 128, "{turns}");
    }

    #[tokio::test]
    async fn a_connection_is_quiet_until_something_comes() {
        for sends in [true, false] {
            let (near, mut far) = pair().await;
            far.write_all(b"ab").await.unwrap();
            assert_eq!(recv(&near, 4).await.unwrap(), b"ab");
            assert!(is_quiet(&near));
            match sends {
                true => far.write_all(b"c").await.unwrap(),
                false => drop(far),
            }
            near.readable().await.unwrap();
            assert!(!is_quiet(&near), "sends: {sends}");
        }
    }

    #[tokio::test]
    async fn errors_are_the_sockets() {
        let (near, far) = pair().await;
        far.set_zero_linger().unwrap();
        drop(far);
        assert_eq!(recv(&near, 4).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(send_now(&near, b"a").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_full_socket_takes_nothing() {
        let (near, _far) = pair().await;
        near.writable().await.unwrap();
        let mut sent = 0;
        loop {
            match send_now(&near, &[0; 65536]).unwrap() {
                0 => break,
                count => sent += count,
            }
        }
        assert!(sent > 65536, "{sent}");
    }
}
