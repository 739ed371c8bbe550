//! The PROXY protocol's header at the start of a client's connection.

use crate::io::read;
use crate::timer::TimeLimit;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use wire::proxy_protocol::{HEADER_MAX, Header};

/// Takes the header off `stream`, and not a byte more: what follows is for others, who may speak TLS.
///
/// # Errors
/// Why there is none, for the log.
pub(crate) async fn read_header(stream: &mut TcpStream, limit: TimeLimit<'_>) -> Result<Header, String> {
    let mut bytes = vec![0; HEADER_MAX];
    let mut taken = 0;
    loop {
        let ahead = peek(stream, &mut bytes[taken..], limit).await.map_err(|error| error.to_string())?;
        if ahead == 0 {
            return Err("the client left before its PROXY protocol header was complete".to_owned());
        }
        let header = Header::parse(&bytes[..taken + ahead]).map_err(|error| error.reason().to_owned())?;
        // Without the rest of the header, all that is there belongs to it.
        let end = header.map_or(taken + ahead, |header| header.length);
        while taken < end {
            match read(stream, &mut bytes[taken..end], limit).await {
                Ok(0) => return Err("the connection ended early".to_owned()),
                Ok(count) => taken += count,
                Err(error) => return Err(error.to_string()),
            }
        }
        if let Some(header) = header {
            return Ok(header);
        }
    }
}

/// Copies what is there without taking it.
async fn peek(stream: &TcpStream, into: &mut [u8], mut limit: TimeLimit<'_>) -> io::Result<usize> {
    poll_fn(|cx| match stream.poll_peek(cx, &mut ReadBuf::new(into)) {
        Poll::Pending => limit.pending(),
        polled => polled,
    })
    .await
}
