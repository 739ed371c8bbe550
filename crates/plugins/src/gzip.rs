//! Compresses responses with gzip if the client accepts it.
//!
//! ## When to use
//! Use it to save bandwidth when upstreams send text uncompressed. Responses are compressed while they are streamed:
//! parts that an upstream sends one by one, such as server-sent events, reach the client one by one. If a route also
//! has `brotli`, each client gets the encoding that it prefers.
//!
//! ## Example
//! ```json
//! {
//!     "gzip": {
//!         "types": ["text/html", "text/css", "application/json"],
//!         "min_length": 256,
//!         "comp_level": 5,
//!         "vary": true
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Quality values (`q`) of `Accept-Encoding` are honoured, and `Vary` is sent with every encoding.
//! - Responses of every status are compressed, but for those without a body, parts (206) and `no-transform`.
//! - `buffers` is accepted and has no effect: pieces are sent as they come, whatever their size.

use crate::compression::Selection;
use flate2::Compression;
use flate2::write::GzEncoder;
use model::ConfigError;
use model::resource::Encoding;
use plugin::{BodyFilter, CompileContext, Exchange, OnResponse, Plugin, PluginDef, UpstreamResponse};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Gzip>("gzip", 995).on_response().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    comp_level: u32,
    #[serde(flatten)]
    selection: Selection,
}

/// The compiled form.
pub struct Gzip {
    level: Compression,
    selection: Selection,
}

impl Plugin for Gzip {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self { level: Compression::new(config.comp_level), selection: config.selection })
    }

    fn schema() -> Value {
        let mut properties = Selection::properties();
        properties["comp_level"] = json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 1});
        properties["buffers"] = json!({
            "description": "no effect",
            "type": "object",
            "properties": {
                "number": {"type": "integer", "minimum": 1, "default": 32},
                "size": {"type": "integer", "minimum": 1, "default": 4096}
            },
            "default": {"number": 32, "size": 4096}
        });
        json!({"type": "object", "properties": properties})
    }
}

impl OnResponse for Gzip {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        let encoder = || Encoder(GzEncoder::new(Vec::new(), self.level));
        self.selection.offer(exchange, response, Encoding::Gzip, encoder);
    }
}

struct Encoder(GzEncoder<Vec<u8>>);

impl BodyFilter for Encoder {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(piece)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.flush()?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.try_finish()?;
        out.append(self.0.get_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Registry, Reply};
    use serde_json::Map;
    use std::io::Read;

    /// The response fields, and the body as its client reads it.
    fn run(config: &Value, request: &str, reply: &Reply) -> (String, Vec<u8>) {
        let registry = Registry::new([def(), crate::brotli::def()], Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, config).expect("valid");
        let bench = Bench::new(request);
        let mut exchange = bench.exchange();
        let body = testkit::reply(&chain, &mut exchange, reply);
        (testkit::lines(exchange.reply_headers), body)
    }

    fn page(length: usize) -> Reply {
        Reply::text(200, "<p>".repeat(length / 3)).with_header("Content-Type", "text/html; charset=utf-8")
    }

    #[test]
    fn responses_are_compressed_for_who_takes_it() {
        let gzip = "Content-Encoding: gzip\r\n";
        let only = json!({"gzip": {}});
        let both = json!({"gzip": {}, "brotli": {}});
        let tagged = |tag: &str| page(90).with_header("ETag", tag);
        for (config, request, reply, expected) in [
            (&only, "GET /\nAccept-Encoding: gzip", page(90), gzip),
            (&only, "GET /\nAccept-Encoding: deflate, gzip;q=0.1", page(90), gzip),
            (&only, "GET /\nAccept-Encoding: gzip;q=0", page(90), ""),
            (&only, "GET /\nAccept-Encoding: br", page(90), ""),
            (&only, "GET /", page(90), ""),
            (&only, "GET /\nAccept-Encoding: gzip", page(18), ""),
            (&only, "GET /\nAccept-Encoding: gzip", Reply::text(200, "a".repeat(90)), ""),
            (&only, "GET /\nAccept-Encoding: gzip", Reply { status: 206, ..page(90) }, ""),
            (&only, "GET /\nAccept-Encoding: gzip", page(90).with_header("Content-Encoding", "br"), ""),
            (
                &only,
                "GET /\nAccept-Encoding: gzip",
                page(90).with_header("Cache-Control", "public, No-Transform"),
                "",
            ),
            (
                &only,
                "GET /\nAccept-Encoding: gzip",
                tagged("\"x\""),
                "Content-Encoding: gzip\r\nETag: W/\"x\"\r\n",
            ),
            (&only, "GET /\nAccept-Encoding: gzip", tagged("W/\"x\""), gzip),
            (&json!({"gzip": {"types": "*"}}), "GET /\nAccept-Encoding: *", page(90), gzip),
            (&json!({"gzip": {"vary": true}}), "GET /", page(90), "Vary: Accept-Encoding\r\n"),
            (&both, "GET /\nAccept-Encoding: gzip, br", page(90), "Content-Encoding: br\r\n"),
            (&both, "GET /\nAccept-Encoding: gzip, br;q=0.9", page(90), gzip),
        ] {
            let (lines, _) = run(config, request, &reply);
            assert_eq!(lines, expected, "{config} {request} {reply:?}");
        }
    }

    #[test]
    fn what_was_sent_before_a_pause_can_be_read() {
        let mut encoder = Encoder(GzEncoder::new(Vec::new(), Compression::new(1)));
        let mut sent = Vec::new();
        encoder.write(b"data: one\n\n", &mut sent).unwrap();
        encoder.flush(&mut sent).unwrap();
        let mut read = [0; 11];
        flate2::read::GzDecoder::new(&sent[..]).read_exact(&mut read).unwrap();
        assert_eq!(&read, b"data: one\n\n");
        encoder.write(b"two", &mut sent).unwrap();
        encoder.finish(&mut sent).unwrap();
        let mut whole = String::new();
        flate2::read::GzDecoder::new(&sent[..]).read_to_string(&mut whole).unwrap();
        assert_eq!(whole, "data: one\n\ntwo");
    }

    #[test]
    fn the_schema_is_apisixs() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for (config, valid) in [
            (json!({"comp_level": 9, "buffers": {"number": 1}}), true),
            (json!({"comp_level": 10}), false),
            (json!({"http_version": 2}), false),
            (json!({"types": []}), false),
            (json!({"types": "text/html"}), false),
            (json!({"min_length": 0}), false),
        ] {
            assert_eq!(testkit::chain(&registry, &json!({"gzip": config})).is_ok(), valid, "{config}");
        }
    }
}
