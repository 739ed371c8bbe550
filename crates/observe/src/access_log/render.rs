//! From a finished request to a line.

use super::escape::Escape;
use super::format::{Piece, compile};
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

    /// Appends the line of `source`, its line break included.
    pub(super) fn line<S: LogSource>(
        &self,
        source: &S,
        now_unix_ms: u64,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        let second = now_unix_ms / 1000;
        if second != scratch.second {
            *scratch = Scratch { second, time: LocalTime::at(second.cast_signed(), &self.zone) };
        }
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::TimeLocal => out.extend_from_slice(scratch.time.common.as_bytes()),
                Piece::TimeIso8601 => out.extend_from_slice(scratch.time.iso8601.as_bytes()),
                Piece::Msec => push_seconds(out, Duration::from_millis(now_unix_ms)),
                _ => self.value(piece, source, out),
            }
        }
    }

    #[inline]
    fn value<S: LogSource>(&self, piece: &Piece, source: &S, out: &mut Vec<u8>) {
        match piece {
            // Addresses and numbers have nothing to escape.
            Piece::RemoteAddr => out.extend_from_slice(source.remote_addr()),
            Piece::Request => self.request_line(source, out),
            Piece::Status => push_status(out, source.status()),
            Piece::BytesSent => push_number(out, source.bytes_sent()),
            Piece::BodyBytesSent => push_number(out, source.body_bytes_sent()),
            Piece::RequestLength => push_number(out, source.request_length()),
            Piece::RequestTime => push_seconds(out, source.request_time()),
            Piece::Host => self.optional(source.header(LogHeader::Host), out),
            Piece::Referer => self.optional(source.header(LogHeader::Referer), out),
            Piece::UserAgent => self.optional(source.header(LogHeader::UserAgent), out),
            Piece::UpstreamAddr | Piece::UpstreamStatus | Piece::UpstreamResponseTime => {
                self.upstream(piece, source, out);
            }
            Piece::UpstreamScheme => out.extend_from_slice(source.upstream().scheme),
            Piece::UpstreamHost => self.optional(source.upstream().host, out),
            Piece::UpstreamUri => self.escape.push(out, source.upstream().uri),
            Piece::Other(var) => self.optional(source.var(var).as_deref(), out),
            Piece::Text(_) | Piece::TimeLocal | Piece::TimeIso8601 | Piece::Msec => {}
        }
    }

    #[inline]
    fn upstream<S: LogSource>(&self, piece: &Piece, source: &S, out: &mut Vec<u8>) {
        let upstream = source.upstream();
        match (piece, upstream.response_time) {
            (Piece::UpstreamAddr, _) if !upstream.addr.is_empty() => out.extend_from_slice(upstream.addr),
            (Piece::UpstreamStatus, _) if upstream.status != 0 => push_status(out, upstream.status),
            (Piece::UpstreamResponseTime, Some(time)) => push_seconds(out, time),
            _ => self.escape.push_absent(out),
        }
    }

    fn request_line<S: LogSource>(&self, source: &S, out: &mut Vec<u8>) {
        let [method, target, version] = source.request_line();
        if method.is_empty() {
            return;
        }
        // A method is a token and a version fixed text: neither can hold what needs escaping.
        out.extend_from_slice(method);
        out.push(b' ');
        self.escape.push(out, target);
        out.push(b' ');
        out.extend_from_slice(version);
    }

    #[inline]
    fn optional(&self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        match value {
            Some(value) => self.escape.push(out, value),
            None => self.escape.push_absent(out),
        }
    }
}

#[inline]
fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Three digits, as nginx writes them: `000` where there is no status.
#[inline]
fn push_status(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(&three_digits(status));
}

/// Seconds with milliseconds: `0.005`.
#[inline]
fn push_seconds(out: &mut Vec<u8>, time: Duration) {
    match time.as_secs() {
        // The digit of nearly all requests.
        seconds @ 0..10 => out.push(b'0' + seconds as u8),
        seconds => push_number(out, seconds),
    }
    out.push(b'.');
    // Below 1000, so 16 bits are enough.
    out.extend_from_slice(&three_digits(time.subsec_millis() as u16));
}

/// The last three decimal digits.
#[inline]
fn three_digits(number: u16) -> [u8; 3] {
    let digit = |number: u16| b'0' + (number % 10) as u8;
    [digit(number / 100), digit(number / 10), digit(number)]
}
