//! Reading a request's body before it is known where it goes.

use super::body::RequestBody;
use super::limits;
use super::relay::CONTINUE;
use crate::connection::Link;
use crate::error::{ProxyError, Side};
use crate::io;
use plugin::{BodyVars, Exchange};

/// Reads all of `body`, if that is at most `most` bytes, and notes it in the exchange. It is sent later all the same.
pub(super) async fn read(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    most: usize,
) -> Result<(), ProxyError> {
    if exchange.request.view.head.facts.expects_continue && !body.has_begun() {
        let limit = link.timer.within(link.config.client.send_timeout);
        let sent = io::write_all(link.stream, CONTINUE, limit).await;
        sent.map_err(|error| ProxyError::io(Side::Client, &error))?;
    }
    let limit = link.timer.within(limits::body_timeout(link.config.client.body_timeout, exchange));
    let bytes = body.read_ahead(link.stream, most, limit).await?;
    note(link, exchange, bytes, most);
    Ok(())
}

/// Notes what was read of a body; `None` where it has more than `most` bytes.
pub(super) fn note(link: &Link<'_>, exchange: &mut Exchange<'_>, bytes: Option<Vec<u8>>, most: usize) {
    let content_type = exchange.request.header(b"content-type");
    let vars = BodyVars::new(content_type, bytes, link.config.body_vars).longer_than(most);
    exchange.request.body = Some(Box::new(vars));
}
