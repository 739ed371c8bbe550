//! A response of an upstream whose body meets taps and filters on its way.

use super::body_flow::{BodyFlow, broken};
use super::client_head::{self, Fields};
use super::ends::Ends;
use super::job::Job;
use super::outcome::{RelayOutcome, UpstreamReuse, cut_off};
use super::pump::{BodyOrigin, Next, Pump};
use super::respond;
use super::transmit::Way;
use crate::error::ProxyError;
use crate::io::Source;
use plugin::{BodyFilters, Exchange, UpstreamResponse, has_no_body};
use wire::{BodyEvent, BodyLength, Framing, ResponseHead};

impl Ends<'_, '_, '_> {
    /// Sends head and body, as the filters make it. An error means that the client has been sent nothing.
    /// `buffer[..filled]` begins with the response's head.
    pub(super) async fn deliver_pumped(
        &mut self,
        buffer: &mut [u8],
        filled: usize,
        job: &mut Job<'_, '_, '_>,
        filters: BodyFilters,
    ) -> Result<RelayOutcome, ProxyError> {
        let Job { message, exchange, timeouts, .. } = job;
        let response = &*message.response;
        let flow = BodyFlow {
            decoder: self.decoder(response.body, filled - response.length),
            framing: Framing::Close,
            start: response.length,
            filled,
            read_timeout: timeouts.read,
        };
        let bytes = buffer[..response.length].to_vec();
        let changes = filters.change_anything() || is_reshaped(exchange, response);
        let (worker, config) = (self.way.worker, self.way.config);
        let may_keep = self.way.upload.sent.get() && respond::keeps_alive(worker, config, exchange);
        let mut pump = Pump::new(Fields::Relayed(response, &bytes), filters, may_keep);
        if !changes {
            let facts = &exchange.request.view.head.facts;
            pump.unchanged = Some(client_head::framing(response.body, facts));
        }
        let mut origin = UpstreamBody { ends: self, buffer, flow, paused: false, trailers: Vec::new() };
        match pump.run(&mut origin, exchange, message.out).await {
            Ok(over) => {
                let clean = over && origin.flow.start == origin.flow.filled;
                let upstream = UpstreamReuse::when(response.keep_alive && clean);
                Ok(RelayOutcome::Completed { client_keeps: pump.keeps(), upstream })
            }
            Err(error) if pump.has_begun() => Ok(cut_off(exchange, &error)),
            Err(error) => Err(error),
        }
    }
}

/// Returns what the body of `response` passes; `None` where it passes as it is.
#[inline]
pub(super) fn filters(
    exchange: &mut Exchange<'_>,
    response: &ResponseHead,
    made: &UpstreamResponse<'_>,
) -> Option<BodyFilters> {
    let filters = exchange.take_body_filters(made);
    if filters.is_none() && is_reshaped(exchange, response) {
        return Some(BodyFilters::default());
    }
    filters
}

/// The body of an upstream's response.
struct UpstreamBody<'b, 'e, 'c, 'u> {
    ends: &'b mut Ends<'e, 'c, 'u>,
    buffer: &'b mut [u8],
    flow: BodyFlow,
    /// Whether the last part was a pause.
    paused: bool,
    trailers: Vec<u8>,
}

impl<'e, 'c: 'e> BodyOrigin<'e, 'c> for UpstreamBody<'_, 'e, 'c, '_> {
    async fn next(&mut self) -> Result<Next<'_>, ProxyError> {
        let Self { ends, buffer, flow, paused, trailers } = self;
        loop {
            let (used, event) = flow.decoder.next(&buffer[flow.start..flow.filled]).map_err(broken)?;
            flow.start += used;
            match event {
                BodyEvent::Data(data) => {
                    *paused = false;
                    // The last bytes that were decoded. Borrowed again, because what is borrowed in a loop stays so.
                    let start = flow.start - data.len();
                    return Ok(Next::Data(&self.buffer[start..self.flow.start]));
                }
                BodyEvent::Trailers(lines) => {
                    trailers.extend_from_slice(lines);
                    return Ok(Next::End);
                }
                BodyEvent::End => return Ok(Next::End),
                BodyEvent::NeedMore => {}
            }
            if flow.refill_now(ends, buffer).await? {
                continue;
            }
            if !std::mem::replace(paused, true) {
                return Ok(Next::Pause);
            }
            flow.refill(ends, buffer).await?;
        }
    }

    fn is_over(&self) -> bool {
        let mut decoder = self.flow.decoder;
        let next = decoder.next(&self.buffer[self.flow.start..self.flow.filled]);
        matches!(next, Ok((_, BodyEvent::Trailers(_) | BodyEvent::End)))
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        match self.trailers.is_empty() {
            true => self.ends.upstream.take_trailers(),
            false => std::mem::take(&mut self.trailers),
        }
    }

    fn way(&mut self) -> &mut Way<'e, 'c> {
        &mut self.ends.way
    }
}

/// Whether plugins have made another answer of `response` than what its framing is for: by a status that has no body, by
/// one that has, or by asking with HEAD for what the client gets by GET.
fn is_reshaped(exchange: &Exchange<'_>, response: &ResponseHead) -> bool {
    let no_body = response.body == BodyLength::None && response.content_length != Some(0);
    has_no_body(exchange.status) != has_no_body(response.status) || (no_body && !exchange.is_bodiless())
}
