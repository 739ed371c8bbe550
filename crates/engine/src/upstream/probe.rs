//! One probe of a node: a connection, for `http` and `https` a request on it and the status of its answer.

use super::resolve::Resolver;
use crate::clock::Now;
use crate::timer::Timers;
use crate::transport::{self, Stream};
use balance::health::Event;
use model::resource::CheckProtocol;
use snapshot::{ActiveChecks, NodeHost, Watched};
use std::net::IpAddr;
use tls::Verify;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The most that is read to find a status line: `HTTP/1.1 200` and a reason.
const LINE_MAX: usize = 1024;

/// Why a probe came to nothing, for the log, and what it counts as.
pub(super) type Failure = (Event, String);

/// What a node did with one probe; `None`: it says nothing of its health.
///
/// # Errors
/// What went wrong.
pub(super) async fn run(
    node: &Watched,
    active: &ActiveChecks,
    resolver: &Resolver,
    tls: &tls::Upstreams,
) -> Result<Option<Event>, Failure> {
    let probing = once(node, active, resolver, tls);
    match tokio::time::timeout(active.timeout, probing).await {
        Ok(result) => result,
        Err(_) => Err((Event::Timeout, format!("no answer within {:?}", active.timeout))),
    }
}

async fn once(
    node: &Watched,
    active: &ActiveChecks,
    resolver: &Resolver,
    tls: &tls::Upstreams,
) -> Result<Option<Event>, Failure> {
    let broken = |error: std::io::Error| (Event::TcpFailure, error.to_string());
    let address = address(node, resolver).await?;
    let stream = TcpStream::connect((address, node.target.port)).await.map_err(broken)?;
    let mut stream = match active.protocol {
        CheckProtocol::Tcp => return Ok(Some(Event::Success)),
        CheckProtocol::Http => Stream::Plain(stream),
        CheckProtocol::Https => secure(node, active, tls, stream, address).await?,
    };
    stream.write_all(&request(node, active)).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    match status(&mut stream).await.map_err(broken)? {
        Some(status) => match active.statuses.of(status) {
            Some(Event::HttpFailure) => Err((Event::HttpFailure, format!("status {status}"))),
            said => Ok(said),
        },
        None => Err((Event::HttpFailure, "what came is no HTTP response".to_owned())),
    }
}

/// Where the node is. A name's first address: a node is one server, whatever the order of the answers.
async fn address(node: &Watched, resolver: &Resolver) -> Result<IpAddr, Failure> {
    let name = match &node.target.host {
        NodeHost::Ip(ip) => return Ok(*ip),
        NodeHost::Name(name) => name,
    };
    let addresses = resolver.addresses(name).await;
    let found = addresses.into_iter().min();
    let ip = found.ok_or_else(|| (Event::TcpFailure, "its name can't be resolved".to_owned()))?;
    node.resolved(ip);
    Ok(ip)
}

/// The same connection encrypted. The name expected is the one asked for, without a port.
async fn secure(
    node: &Watched,
    active: &ActiveChecks,
    tls: &tls::Upstreams,
    stream: TcpStream,
    address: IpAddr,
) -> Result<Stream, Failure> {
    let verify = if active.verify { Verify::Name } else { Verify::Nothing };
    let unusable = |error: tls::rustls::Error| (Event::TcpFailure, error.to_string());
    let config = tls.config(verify, node.identity.as_deref(), &["http/1.1"]).map_err(unusable)?;
    let name = super::secure::server_name(node.target.asked.as_bytes(), address);
    // A probe as a whole has its timeout: see `run`.
    let timers = Timers::new(Now::default());
    let registration = timers.register();
    let session = transport::connect(stream, &config, &name, registration.timer.unlimited()).await;
    session.map(Stream::Tls).map_err(|error| (Event::TcpFailure, error.reason.to_owned()))
}

/// The probe's request. The connection is not used again.
fn request(node: &Watched, active: &ActiveChecks) -> Vec<u8> {
    let (asked, request) = (&node.target.asked, &active.request);
    let named = |name: &str| {
        let is =
            |field: &String| field.split_once(':').is_some_and(|(own, _)| own.eq_ignore_ascii_case(name));
        request.fields.iter().any(is)
    };
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    // Two of either would be refused by a careful server (RFC 9112 section 3.2).
    if !named("host") {
        text.push_str(&format!("Host: {asked}\r\n"));
    }
    if !named("connection") {
        text.push_str("Connection: close\r\n");
    }
    for field in &request.fields {
        text.push_str(field);
        text.push_str("\r\n");
    }
    if !request.body.is_empty() && !named("content-length") {
        text.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    text.push_str("\r\n");
    text.push_str(&request.body);
    text.into_bytes()
}

/// The status of the response that comes; `None` for what is none.
async fn status(stream: &mut Stream) -> std::io::Result<Option<u16>> {
    let mut line = Vec::with_capacity(LINE_MAX);
    while !line.contains(&b'\n') && line.len() < LINE_MAX {
        let mut piece = [0; 256];
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            break;
        }
        line.extend_from_slice(&piece[..count]);
    }
    if line.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(parse(&line))
}

fn parse(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/")?;
    let after = rest.iter().position(|byte| *byte == b' ')?;
    let digits = rest.get(after + 1..after + 4)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_any_version_of_http() {
        for (line, expected) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], Some(200)),
            (b"HTTP/1.0 404\r\n", Some(404)),
            (b"HTTP/2 503 \n", Some(503)),
            (b"HTTP/1.1 20", None),
            (b"HTTP/1.1", None),
            (b"SSH-2.0-OpenSSH\r\n", None),
            (b"HTTP/1.1 abc\r\n", None),
            (b"", None),
        ] {
            assert_eq!(parse(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }
}
