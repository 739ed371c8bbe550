//! From a finished request to a line.

use super::escape::Escape;
use super::format::{Field, Piece, compile};
use super::line::Line;
use super::source::{LogHeader, LogSource};
use crate::local_time::LocalTime;
use jiff::tz::TimeZone;
use std::time::Duration;

/// A compiled format with its escaping and time zone.
pub(super) struct Renderer {
    pieces: Vec<Piece>,
    escape: Escape,
    zone: TimeZone,
}

/// What a worker keeps from line to line.
#[derive(Default)]
pub(super) struct Scratch {
    second: u64,
    time: LocalTime,
}

impl Renderer {
    pub(super) fn new(format: &str, escape: Escape) -> Self {
        Self { pieces: compile(format), escape, zone: TimeZone::system() }
    }

    /// Writes the line of `source`, its line break included, to the start of `room` and says how long it is; `None`
    /// where it does not fit.
    pub(super) fn line<S: LogSource>(
        &self,
        source: &S,
        now_unix_ms: u64,
        scratch: &mut Scratch,
        room: &mut [u8],
    ) -> Option<usize> {
        let second = now_unix_ms / 1000;
        if second != scratch.second {
            *scratch = Scratch { second, time: LocalTime::at(second.cast_signed(), &self.zone) };
        }
        let mut line = Line::new(room);
        for piece in &self.pieces {
            line.push_text(&piece.text);
            // Without this the compiler works out all there is to know of a request before the loop, and then keeps it
            // on the stack: a fifth of a line's instructions.
            let source = std::hint::black_box(source);
            self.value(&piece.field, source, now_unix_ms, &scratch.time, &mut line);
        }
        line.finish()
    }

    #[inline(always)]
    fn value<S: LogSource>(
        &self,
        field: &Field,
        source: &S,
        now_unix_ms: u64,
        time: &LocalTime,
        out: &mut Line<'_>,
    ) {
        match field {
            Field::End => {}
            Field::TimeLocal => out.push(time.common.as_bytes()),
            Field::TimeIso8601 => out.push(time.iso8601.as_bytes()),
            // The remainder is below 1000, so 16 bits are enough.
            Field::Msec => out.push_seconds(now_unix_ms / 1000, (now_unix_ms % 1000) as u16),
            // Addresses and numbers have nothing to escape.
            Field::RemoteAddr => out.push(source.remote_addr()),
            Field::Request => self.request_line(source, out),
            Field::RequestId => match source.request_id() {
                Some(id) => out.push_hex(id),
                None => self.escape.push_absent(out),
            },
            Field::Status => out.push_status(source.status()),
            Field::BytesSent => out.push_number(source.bytes_sent()),
            Field::BodyBytesSent => out.push_number(source.body_bytes_sent()),
            Field::RequestLength => out.push_number(source.request_length()),
            Field::RequestTime => push_duration(out, source.request_time()),
            Field::Host => self.optional(source.header(LogHeader::Host), out),
            Field::Referer => self.optional(source.header(LogHeader::Referer), out),
            Field::UserAgent => self.optional(source.header(LogHeader::UserAgent), out),
            Field::UpstreamAddr => match source.upstream().addr {
                [] => self.escape.push_absent(out),
                addr => out.push(addr),
            },
            Field::UpstreamStatus => match source.upstream().status {
                0 => self.escape.push_absent(out),
                status => out.push_status(status),
            },
            Field::UpstreamResponseTime => match source.upstream().response_time {
                Some(time) => push_duration(out, time),
                None => self.escape.push_absent(out),
            },
            Field::UpstreamScheme => out.push(source.upstream().scheme),
            Field::UpstreamHost => self.optional(source.upstream().host, out),
            Field::UpstreamUri => self.escape.push(out, source.upstream().uri),
            Field::Other(var) => self.optional(source.var(var).as_deref(), out),
        }
    }

    #[inline(never)]
    fn request_line<S: LogSource>(&self, source: &S, out: &mut Line<'_>) {
        let [method, target, version] = source.request_line();
        if method.is_empty() {
            // A refused line: whatever the client sent.
            self.escape.push(out, target);
            return;
        }
        // A method is a token and a version fixed text: neither can hold what needs escaping.
        out.push(method);
        out.push_block(*b" ");
        self.escape.push(out, target);
        out.push_block(*b" ");
        out.push(version);
    }

    #[inline]
    fn optional(&self, value: Option<&[u8]>, out: &mut Line<'_>) {
        match value {
            Some(value) => self.escape.push(out, value),
            None => self.escape.push_absent(out),
        }
    }
}

#[inline]
fn push_duration(out: &mut Line<'_>, time: Duration) {
    // Below 1000, so 16 bits are enough.
    out.push_seconds(time.as_secs(), time.subsec_millis() as u16);
}
