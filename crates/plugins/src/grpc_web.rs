//! Translates gRPC-Web requests of browsers to gRPC, and the responses back.
//!
//! ## When to use
//! Use it for web pages with a gRPC-Web client. The upstream's scheme must be `grpc` or `grpcs`. If the route's path
//! ends in `*`, the method's path is what the asterisk matches; otherwise it is the whole path.
//!
//! ## Example
//! ```json
//! {
//!     "grpc-web": {
//!         "cors_allow_headers": "content-type,x-grpc-web,x-user-agent"
//!     }
//! }
//! ```
//! Binary and base64 messages are told apart by the media type; answers stream as they come, with the call's status as
//! the last frame (gRPC's document on gRPC-Web).
//!
//! ## Differences from APISIX
//! - All trailers of the call are in the last frame, not the status alone.
//! - Parameters of the media type don't matter, and a base64 body may be several that are padded each.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use model::schema::parts;
use plugin::{
    BodyFilter, CompileContext, Exchange, Flow, OnAccess, OnResponse, Plugin, PluginDef, Target,
    UpstreamResponse, WholeBody,
};
use router::uri_param;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<GrpcWeb>("grpc-web", 505).on_access().on_response().build()
}

/// Marks the frame of trailers.
const TRAILERS: u8 = 0x80;

/// Of a call whose end says nothing.
const UNKNOWN: &[u8] = b"grpc-status:2\r\ngrpc-message:upstream grpc status not received\r\n";

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    max_req_body_size: usize,
    cors_allow_headers: String,
}

/// The compiled form.
pub struct GrpcWeb {
    config: Config,
}

/// A request that was translated.
struct Call {
    media_type: Vec<u8>,
    is_text: bool,
}

impl Plugin for GrpcWeb {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self { config })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "max_req_body_size": parts::body_limit("bytes of a request's body; longer ones are refused"),
                "cors_allow_headers": {
                    "description": "the header fields that pages of other sites may send, with commas between them",
                    "type": "string",
                    "default": "content-type,x-grpc-web,x-user-agent"
                }
            }
        })
    }
}

impl Call {
    /// The call that a request with this `Content-Type` makes.
    fn of(content_type: &[u8]) -> Option<Self> {
        let media_type = content_type.split(|byte| *byte == b';').next()?.trim_ascii();
        let is_text = match media_type.to_ascii_lowercase().as_slice() {
            b"application/grpc-web" | b"application/grpc-web+proto" => false,
            b"application/grpc-web-text" | b"application/grpc-web-text+proto" => true,
            _ => return None,
        };
        Some(Self { media_type: media_type.to_vec(), is_text })
    }
}

impl OnAccess for GrpcWeb {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        match exchange.request.method() {
            b"OPTIONS" => return Flow::status(204),
            b"POST" => {}
            _ => return Flow::status(405),
        }
        let content_type = exchange.request.header(b"Content-Type").unwrap_or_default();
        let Some(call) = Call::of(content_type) else { return Flow::status(400) };
        let limit = self.config.max_req_body_size;
        let body = match exchange.request.whole_body(limit) {
            WholeBody::Unread => return Flow::Body(limit),
            WholeBody::TooLong => return Flow::status(413),
            WholeBody::Whole(body) => body,
        };
        let message = if call.is_text { decoded(body) } else { Some(body.to_vec()) };
        let Some(message) = message else { return Flow::status(400) };
        let rest = uri_param(exchange.matched_uri, exchange.request.route_path(), ":ext");
        // The path that routes are matched against is decoded.
        let target = rest.filter(|rest| !rest.is_empty()).map(Target::of_path);
        let edits = exchange.request.edit();
        if let Some(target) = target {
            edits.target = Some(target);
        }
        edits.body = Some(message.into());
        edits.headers.set("Content-Type", "application/grpc");
        edits.headers.set("TE", "trailers");
        exchange.extras().note(self, call);
        Flow::Next
    }
}

impl OnResponse for GrpcWeb {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        let preflight = exchange.request.method() == b"OPTIONS";
        let headers = &mut *exchange.reply_headers;
        if preflight {
            headers.set("Access-Control-Allow-Methods", "POST");
            headers.set("Access-Control-Allow-Headers", &self.config.cors_allow_headers);
        }
        // `cors` has its own word on this, and runs before.
        if headers.get(b"Access-Control-Allow-Origin").is_none() {
            headers.set("Access-Control-Allow-Origin", "*");
        }
        headers.set("Access-Control-Expose-Headers", "grpc-message,grpc-status");
        let failed_at_once = response.header(b"grpc-status", headers).is_some();
        let Some(call) = exchange.extras().noted::<_, Call>(self) else { return };
        let (media_type, is_text) = (call.media_type.clone(), call.is_text);
        if response.head.is_none() {
            return;
        }
        exchange.reply_headers.set("Content-Type", media_type);
        // A call that fails at once has its status in the head, and no body.
        if !failed_at_once {
            let text = is_text.then(Base64::default);
            exchange.extras().body_filters.push(Answer { text, trailers: None });
        }
    }
}

/// Adds the frame of trailers, and writes everything in base64 where the client wants it so.
struct Answer {
    text: Option<Base64>,
    /// The lines of the call's trailer section.
    trailers: Option<Vec<u8>>,
}

impl BodyFilter for Answer {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.text {
            None => out.extend_from_slice(piece),
            Some(text) => text.write(piece, out),
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.text.iter_mut().for_each(|text| text.pad(out));
        Ok(())
    }

    fn trailers(&mut self, lines: &mut Vec<u8>) {
        self.trailers = Some(std::mem::take(lines));
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let lines = trailer_block(self.trailers.as_deref().unwrap_or_default());
        let length = u32::try_from(lines.len()).map_err(|_| io::Error::other("trailers of over 4 GiB"))?;
        let frame = [&[TRAILERS][..], &length.to_be_bytes(), &lines].concat();
        self.flush(out)?;
        self.write(&frame, out)?;
        self.flush(out)
    }
}

/// `lines` in the form of the last frame: names in lower case, no space behind the colon, the status first.
fn trailer_block(lines: &[u8]) -> Vec<u8> {
    let fields = lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii()))
    });
    let (mut status, mut message, mut others) = (None, &b""[..], Vec::new());
    for (name, value) in fields {
        match name.as_slice() {
            b"grpc-status" => status = Some(value),
            b"grpc-message" => message = value,
            _ => others.extend([&name, &b":"[..], value, b"\r\n"].concat()),
        }
    }
    let Some(status) = status else { return UNKNOWN.to_vec() };
    [b"grpc-status:", status, b"\r\ngrpc-message:", message, b"\r\n", &others].concat()
}

/// Base64 of a stream: what doesn't fill a group waits for the next piece, or is padded.
#[derive(Default)]
struct Base64 {
    held: Vec<u8>,
}

impl Base64 {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        let whole = self.held.len() / 3 * 3;
        out.extend_from_slice(STANDARD.encode(&self.held[..whole]).as_bytes());
        self.held.drain(..whole);
    }

    fn pad(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(STANDARD.encode(&self.held).as_bytes());
        self.held.clear();
    }
}

/// Reads base64 that may be made of several texts, each padded.
fn decoded(body: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::with_capacity(body.len() / 4 * 3);
    let groups = body.split_inclusive(|byte| *byte == b'=').filter(|text| *text != b"=");
    for text in groups {
        let bare = text.strip_suffix(b"=").unwrap_or(text);
        let mut padded = bare.to_vec();
        padded.resize(bare.len().next_multiple_of(4), b'=');
        message.extend(STANDARD.decode(padded).ok()?);
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};
    use serde_json::Map;

    fn chain() -> Chain {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({"grpc-web": {}})).expect("valid")
    }

    #[test]
    fn what_is_no_call_is_refused_and_what_asks_for_leave_gets_it() {
        for (method, content_type, body, status) in [
            ("OPTIONS", "text/plain", "", 204),
            ("GET", "application/grpc-web", "", 405),
            ("POST", "application/json", "", 400),
            ("POST", "application/grpc-web-text", "?", 400),
            ("POST", "application/grpc-web-text", "AAAAAAA=", 0),
            ("POST", "Application/gRPC-web+proto; x=y", "\0\0\0\0\0", 0),
        ] {
            let length = body.len();
            let head = format!("{method} /s/m\nContent-Type: {content_type}\nContent-Length: {length}");
            let bench = Bench::new(&head).with_body(body);
            let mut exchange = bench.exchange();
            assert_eq!(testkit::access(&chain(), &mut exchange), status, "{method} {content_type} {body}");
            if status == 0 {
                let edits = exchange.request.edit();
                assert_eq!(edits.body.as_deref(), Some(&[0; 5][..]), "{content_type}");
                assert!(testkit::lines(&edits.headers).contains("Content-Type: application/grpc\r\n"));
                continue;
            }
            testkit::response(&chain(), &mut exchange, status);
            let lines = testkit::lines(exchange.reply_headers);
            assert!(lines.contains("Access-Control-Allow-Origin: *\r\n"), "{lines}");
            assert_eq!(lines.contains("Access-Control-Allow-Methods: POST\r\n"), status == 204, "{lines}");
        }
    }

    #[test]
    fn the_call_is_what_the_asterisk_stands_for() {
        for (uri, path, target) in [
            ("/web/*", "/web/s/m", Some("/s/m")),
            ("/web/*", "/web/s/m%20HTTP/1.1%0d%0aX:%201", Some("/s/m%20HTTP/1.1%0D%0AX:%201")),
            ("/web/*", "/web/", None),
            ("/s/m", "/s/m", None),
        ] {
            let bench = Bench::new(&format!("POST {path}\nContent-Type: application/grpc-web"));
            let mut exchange = bench.exchange();
            exchange.matched_uri = uri;
            assert_eq!(testkit::access(&chain(), &mut exchange), 0);
            assert_eq!(exchange.request.edit().target.as_deref(), target.map(str::as_bytes), "{uri} {path}");
        }
    }

    /// What is made of two pieces and trailers.
    fn answer(is_text: bool, trailers: &str) -> Vec<u8> {
        let mut filter = Answer { text: is_text.then(Base64::default), trailers: None };
        let mut out = Vec::new();
        filter.write(b"abcd", &mut out).unwrap();
        filter.flush(&mut out).unwrap();
        filter.write(b"efg", &mut out).unwrap();
        let mut lines = trailers.as_bytes().to_vec();
        filter.trailers(&mut lines);
        assert!(lines.is_empty());
        filter.finish(&mut out).unwrap();
        out
    }

    #[test]
    fn the_status_is_the_last_frame() {
        let frame = |lines: &str| [b"\x80\0\0\0", &[lines.len() as u8][..], lines.as_bytes()].concat();
        for (trailers, expected) in [
            ("Grpc-Status: 0\r\n", "grpc-status:0\r\ngrpc-message:\r\n"),
            (
                "a: b\r\ngrpc-message: no: way\r\ngrpc-status: 5\r\n",
                "grpc-status:5\r\ngrpc-message:no: way\r\na:b\r\n",
            ),
            ("", "grpc-status:2\r\ngrpc-message:upstream grpc status not received\r\n"),
        ] {
            let plain = answer(false, trailers);
            assert_eq!(plain, [&b"abcdefg"[..], &frame(expected)].concat(), "{trailers}");
            assert_eq!(decoded(&answer(true, trailers)).unwrap(), plain, "{trailers}");
        }
        assert!(answer(true, "").starts_with(b"YWJjZA=="), "a flushed piece is padded");
    }
}
