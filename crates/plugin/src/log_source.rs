//! What the access log asks of an exchange.

use crate::Exchange;
use observe::access_log::{LogHeader, LogSource, UpstreamFields};
use std::time::Duration;
use wire::Known;

impl LogSource for Exchange<'_> {
    fn remote_addr(&self) -> &[u8] {
        self.client.ip_text.as_bytes()
    }

    fn request_line(&self) -> [&[u8]; 3] {
        if let Some(line) = self.request.refused_line() {
            return [b"", line, b""];
        }
        [self.request.method(), self.request.target(), self.request.view.head.facts.version()]
    }

    fn request_id(&self) -> Option<u128> {
        Some(self.id())
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
        let known = match header {
            LogHeader::Host => Known::Host,
            LogHeader::Referer => Known::Referer,
            LogHeader::UserAgent => Known::UserAgent,
        };
        self.request.known(known)
    }

    fn upstream(&self) -> UpstreamFields<'_> {
        let upstream = &self.upstream;
        UpstreamFields {
            addr: upstream.addr().as_bytes(),
            status: upstream.status,
            response_time: upstream.time,
            // APISIX's variable says `http` before an upstream is asked.
            scheme: if upstream.scheme.is_empty() { b"http" } else { upstream.scheme.as_bytes() },
            host: match &upstream.host {
                Some(host) => Some(host.as_bytes()),
                None => self.request.known(Known::Host),
            },
            uri: self.request.edits.as_ref().and_then(|edits| edits.target.as_deref()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Bench;

    #[test]
    fn a_request_that_asked_no_upstream_says_so() {
        let bench = Bench::new("GET /a?b=c\nHost: A.com:9080\nReferer: http://b.com/");
        let exchange = bench.exchange();
        assert_eq!(exchange.request_line(), [&b"GET"[..], b"/a?b=c", b"HTTP/1.1"]);
        assert_eq!(exchange.header(LogHeader::Referer), Some(&b"http://b.com/"[..]));
        assert_eq!(exchange.header(LogHeader::UserAgent), None);
        let upstream = exchange.upstream();
        assert_eq!((upstream.addr, upstream.status, upstream.response_time), (&b""[..], 0, None));
        assert_eq!(
            (upstream.scheme, upstream.host, upstream.uri),
            (&b"http"[..], Some(&b"A.com:9080"[..]), &b""[..])
        );
    }
}
