//! Reading a request's body before it is known where it goes.

use super::body::RequestBody;
use super::client_head::send_continue;
use super::limits;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::link::Link;
use plugin::{BodyVars, Exchange, HeldBytes, REQUEST_BYTES_MAX, Reply, log_for};
use wire::BodyLength;

/// How much of a body of unknown length is read at first; four times as much each time after that.
const STEP: usize = 64 * 1024;

/// Reads all of `body`, if that is at most `most` bytes, and notes it in the exchange. It is sent later all the same.
pub(super) async fn read(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    most: usize,
) -> Result<(), ProxyError> {
    if exchange.request.view.head.facts.expects_continue && !body.has_begun() {
        send_continue(link).await?;
    }
    // What was read before is read again, and takes its room again.
    exchange.request.body = None;
    let limit = link.timer.within(limits::body_timeout(link.config.client.body_timeout, exchange));
    let mut room = HeldBytes::of_request();
    let mut step = match body.length() {
        BodyLength::Exact(length) => match usize::try_from(length) {
            Ok(length) if length <= most => length,
            // Nothing of it is read.
            _ => {
                note(link, exchange, None, most, room);
                return Ok(());
            }
        },
        BodyLength::None => 0,
        _ => STEP,
    };
    let bytes = loop {
        step = step.min(most);
        take(&mut room, step)?;
        match body.read_ahead(link.stream, step, limit).await? {
            None if step < most && body.length() == BodyLength::Chunked => step *= 4,
            bytes => break bytes,
        }
    };
    // What is too long is held as received alone.
    take(&mut room, bytes.as_ref().map_or(step / 2, Vec::len))?;
    note(link, exchange, bytes, most, room);
    Ok(())
}

/// Makes `room` that of a body with `length` bytes: as received, and decoded.
pub(super) fn take(room: &mut HeldBytes, length: usize) -> Result<(), ProxyError> {
    room.set(length.saturating_mul(2)).map_err(|error| ProxyError::io(Side::Client, &error))
}

/// The answer to a request whose body can't be read.
pub(super) fn refusal(error: ProxyError, exchange: &Exchange<'_>) -> Reply {
    if error.kind == ErrorKind::NoRoom {
        log_for!(
            warn,
            exchange,
            "request refused with 503: this worker holds {} MiB of request bodies for plugins and conditions",
            REQUEST_BYTES_MAX >> 20
        );
    }
    error.reply()
}

/// Notes what was read of a body; `None` where it has more than `most` bytes.
pub(super) fn note(
    link: &Link<'_>,
    exchange: &mut Exchange<'_>,
    bytes: Option<Vec<u8>>,
    most: usize,
    room: HeldBytes,
) {
    let content_type = exchange.request.header(b"content-type");
    let vars = BodyVars::new(content_type, bytes, link.config.body_vars).longer_than(most).holding(room);
    exchange.request.body = Some(Box::new(vars));
}
