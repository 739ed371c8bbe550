//! An exchange as the access log sees it.

use crate::Exchange;
use observe::access_log::{LogHeader, LogSource, UpstreamFields};
use std::time::Duration;
use wire::Known;

impl LogSource for Exchange<'_> {
    fn remote_addr(&self) -> &[u8] {
        self.client.ip_text.as_bytes()
    }

    fn request_line(&self) -> [&[u8]; 3] {
        let head = self.request.view.head;
        if head.method_token.is_empty() {
            return [b"", b"", b""];
        }
        [
            self.request.method(),
            self.request.target(),
            if head.facts.http11 { b"HTTP/1.1" } else { b"HTTP/1.0" },
        ]
    }

    fn status(&self) -> u16 {
        self.status
    }

    fn bytes_sent(&self) -> u64 {
        self.timing.sent_bytes
    }

    fn body_bytes_sent(&self) -> u64 {
        self.timing.sent_body_bytes
    }

    fn request_length(&self) -> u64 {
        self.timing.request_bytes
    }

    fn request_time(&self) -> Duration {
        self.timing.total
    }

    fn header(&self, header: LogHeader) -> Option<&[u8]> {
        self.request.known(match header {
            LogHeader::Host => Known::Host,
            LogHeader::Referer => Known::Referer,
            LogHeader::UserAgent => Known::UserAgent,
        })
    }

    fn upstream(&self) -> UpstreamFields<'_> {
        UpstreamFields {
            addr: self.upstream.addr().as_bytes(),
            status: self.upstream.status,
            response_time: self.upstream.time,
            scheme: self.upstream.scheme.as_bytes(),
            host: match self.upstream.host.as_deref() {
                Some(host) => Some(host.as_bytes()),
                None => self.request.known(Known::Host),
            },
            uri: self.request.edits.as_ref().and_then(|edits| edits.target.as_deref()).unwrap_or_default(),
        }
    }
}
