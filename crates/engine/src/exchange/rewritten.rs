//! A response whose body passes filters of plugins on its way, or is recorded by one. The length of a filtered one is known
//! only when it ends: where that is before anything of it was sent, the head says it, and otherwise the body goes in chunks.

use super::client_head::{self, ClientHead, Fields};
use super::download::{BodyFlow, Ends};
use super::outcome::{RelayOutcome, UpstreamReuse};
use super::relay::Job;
use super::respond;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{Sink, Source};
use plugin::{BodyFilters, Exchange, Recorder, has_no_body};
use wire::{BodyLength, Framing, ResponseHead};

/// Who meets a body on its way.
pub(super) struct Passing {
    /// They make another one of it.
    pub(super) filters: BodyFilters,
    /// It gets what the upstream sent.
    pub(super) recorder: Option<Box<dyn Recorder>>,
}

/// What is made of a body under way.
struct Output {
    passing: Passing,
    /// The head as the upstream sent it.
    head: Vec<u8>,
    /// How the body is framed where nothing is made of it but what it is.
    as_it_came: Option<Framing>,
    /// Whether the client's connection may carry another request, as far as that is not the framing's to say.
    may_keep: bool,
    /// What came out and is not sent yet.
    made: Vec<u8>,
    /// The lines of the trailer section; empty without one.
    trailers: Vec<u8>,
    /// `None` until the head is sent.
    framing: Option<Framing>,
}

impl Ends<'_, '_, '_> {
    /// Sends head and body, as the filters make it. An error means that the client has been sent nothing.
    /// `buffer[..filled]` begins with the response's head.
    pub(super) async fn deliver_passing(
        &mut self,
        buffer: &mut [u8],
        filled: usize,
        job: &mut Job<'_, '_, '_>,
        passing: Passing,
    ) -> Result<RelayOutcome, ProxyError> {
        let response = &*job.message.response;
        let flow = BodyFlow {
            decoder: self.decoder(response.body, filled - response.length),
            framing: Framing::Close,
            start: response.length,
            filled,
            read_timeout: job.timeouts.read,
        };
        let head = buffer[..response.length].to_vec();
        let facts = &job.exchange.request.view.head.facts;
        let unchanged = passing.filters.is_empty() && !is_reshaped(job.exchange, response);
        let as_it_came = unchanged.then(|| client_head::framing(response.body, facts));
        let may_keep = self.upload.sent.get() && respond::keeps_alive(self.worker, self.config, job.exchange);
        let mut output = Output {
            passing,
            head,
            as_it_came,
            may_keep,
            made: Vec::new(),
            trailers: Vec::new(),
            framing: None,
        };
        match self.pass(buffer, job, flow, &mut output).await {
            Err(error) if output.framing.is_some() => Ok(cut_off(job.exchange, &error)),
            result => result,
        }
    }

    /// Reads the body, and sends what becomes of it, until it is over.
    async fn pass(
        &mut self,
        buffer: &mut [u8],
        job: &mut Job<'_, '_, '_>,
        mut flow: BodyFlow,
        output: &mut Output,
    ) -> Result<RelayOutcome, ProxyError> {
        let over = loop {
            let over = output.take(&mut flow, buffer)?;
            if over && output.trailers.is_empty() {
                output.trailers = self.upstream.take_trailers();
            }
            let last = over || !output.passing.wants_more(job.exchange);
            let at_hand = !last && flow.refill_now(self, buffer).await?;
            output.release(last, at_hand)?;
            if output.framing.is_none() && (last || !output.made.is_empty()) {
                self.begin(job, output, last)?;
            }
            if let Some(framing) = output.framing {
                self.send_made(job, output, framing, last).await?;
            }
            if last {
                break over;
            }
            if !at_hand {
                flow.refill(self, buffer).await?;
            }
        };
        let client_keeps = output.may_keep && output.framing != Some(Framing::Close);
        let reusable = job.message.response.keep_alive && over && flow.start == flow.filled;
        Ok(RelayOutcome::Completed { client_keeps, upstream: UpstreamReuse::when(reusable) })
    }

    /// Writes the head, now that something of the body is known, or, if this is the `last`, all of it.
    fn begin(&self, job: &mut Job<'_, '_, '_>, output: &mut Output, last: bool) -> Result<(), ProxyError> {
        let Job { message, exchange, .. } = job;
        let framing = framing(exchange, output.as_it_came, last, output.made.len());
        output.framing = Some(framing);
        if output.as_it_came.is_none() {
            say_length(exchange, framing);
        }
        let keep_alive = output.may_keep && framing != Framing::Close;
        let fields = Fields::Relayed(message.response, &output.head);
        ClientHead { fields, framing, keep_alive }
            .begin(self.worker, exchange, self.client.http2(), message.out)
            .map_err(|error| ProxyError::io(Side::Client, &error))
    }

    /// Sends what was made, and the head before it where that is still to be sent.
    async fn send_made(
        &mut self,
        job: &mut Job<'_, '_, '_>,
        output: &mut Output,
        framing: Framing,
        last: bool,
    ) -> Result<(), ProxyError> {
        let Job { message, exchange, .. } = job;
        let head_len = message.out.len() as u64;
        let failed = |error: std::io::Error| ProxyError::io(Side::Client, &error);
        frame(framing, last, &mut output.made, &output.trailers, message.out);
        if last {
            self.client.end_after(message.out.len(), &output.trailers).map_err(failed)?;
        }
        self.send(message.out, &[]).await?;
        exchange.timing.sent_bytes += message.out.len() as u64;
        exchange.timing.sent_body_bytes += message.out.len() as u64 - head_len;
        message.out.clear();
        Ok(())
    }
}

impl Output {
    /// Sends what has been read through the filters; whether the upstream's body is over.
    fn take(&mut self, flow: &mut BodyFlow, buffer: &[u8]) -> Result<bool, ProxyError> {
        let Self { passing: Passing { filters, recorder }, made, trailers, .. } = self;
        let read = &buffer[..flow.filled];
        let over = flow.each(read, trailers, |piece| {
            if let Some(recorder) = recorder {
                recorder.piece(piece);
            }
            filters.write(piece, made).map_err(|error| refused(&error))
        })?;
        if over && let Some(recorder) = recorder.take() {
            recorder.finish();
        }
        Ok(over)
    }

    /// Lets the filters go of what they hold: of all when the body is over, and of what they can where nothing more is
    /// at hand.
    fn release(&mut self, last: bool, at_hand: bool) -> Result<(), ProxyError> {
        match (last, at_hand) {
            (true, _) => self.passing.filters.finish(&mut self.trailers, &mut self.made),
            (false, true) => Ok(()),
            (false, false) => self.passing.filters.flush(&mut self.made),
        }
        .map_err(|error| refused(&error))
    }
}

impl Passing {
    /// Whether more of the upstream's body would make a difference to anybody.
    fn wants_more(&self, exchange: &Exchange<'_>) -> bool {
        self.recorder.is_some() || (!exchange.is_bodiless() && self.filters.want_more())
    }
}

/// Whether plugins have made another answer of `response` than what its framing is for: by a status that has no body, by
/// one that has, or by asking with HEAD for what the client gets by GET.
pub(super) fn is_reshaped(exchange: &Exchange<'_>, response: &ResponseHead) -> bool {
    let no_body = response.body == BodyLength::None && response.content_length != Some(0);
    has_no_body(exchange.status) != has_no_body(response.status) || (no_body && !exchange.is_bodiless())
}

/// How a body goes to the client: framed `as_it_came`, or, where it is changed, as what is known of it allows. `length`
/// bytes are made, and no more will be if these are the `last`.
pub(super) fn framing(
    exchange: &Exchange<'_>,
    as_it_came: Option<Framing>,
    last: bool,
    length: usize,
) -> Framing {
    if let Some(framing) = as_it_came.filter(|_| !exchange.is_bodiless()) {
        return framing;
    }
    match last {
        _ if exchange.is_bodiless() => Framing::None,
        true => Framing::Exact(length as u64),
        false => client_head::framing(BodyLength::Chunked, &exchange.request.view.head.facts),
    }
}

/// Says the length of a body that was changed, where it is known.
pub(super) fn say_length(exchange: &mut Exchange<'_>, framing: Framing) {
    match framing {
        Framing::Exact(length) => exchange.reply_headers.set_number("Content-Length", length),
        _ => exchange.reply_headers.remove("Content-Length"),
    }
}

/// Moves what was `made` to `out`, framed; the trailers' lines with the `last` of it.
pub(super) fn frame(framing: Framing, last: bool, made: &mut Vec<u8>, trailers: &[u8], out: &mut Vec<u8>) {
    framing.encode(made, out);
    made.clear();
    if last {
        framing.encode_end(trailers, out);
    }
}

pub(super) fn refused(error: &std::io::Error) -> ProxyError {
    tracing::error!(%error, "a plugin can't go on with a response's body");
    ProxyError::new(Side::Upstream, ErrorKind::Protocol, "a response's body could not be changed")
}

/// Notes why a response broke off that had begun.
pub(super) fn cut_off(exchange: &mut Exchange<'_>, error: &ProxyError) -> RelayOutcome {
    let (client, upstream) = (&exchange.client.addr, exchange.upstream.addr());
    let route = exchange.route.map_or("", |route| route.id.as_str());
    let said = format_args!("{:?}: {}, the response is cut off", error.side, error.reason);
    match error.side {
        Side::Upstream => tracing::error!(%client, upstream, route, "{said}"),
        // That clients leave is no fault of ours or of the operator's.
        Side::Client => tracing::info!(%client, upstream, route, "{said}"),
    }
    exchange.upstream.broke_off = error.side == Side::Upstream;
    RelayOutcome::Aborted
}
