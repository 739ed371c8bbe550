//! Uploads log entries to Tencent Cloud Log Service (CLS) in batches.
//!
//! ## When to use
//! Use it when logs are kept in Tencent Cloud.
//!
//! ## Example
//! ```json
//! {
//!     "tencent-cloud-cls": {
//!         "cls_host": "ap-guangzhou.cls.tencentyun.com",
//!         "cls_topic": "topic",
//!         "secret_id": "id",
//!         "secret_key": "key",
//!         "sample_ratio": 0.1
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - With `include_req_body`, bodies are also read for requests that are not sampled.

use crate::logging::{Collector, Entry, Logger};
use crate::random::Random;
use delivery::{Destination, HttpCollector};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, Exchange, PluginDef};
use prost::encoding::{WireType, encode_key, encode_varint};
use ring::{digest, hmac};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::net::ToSocketAddrs as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<TencentCloudCls>>("tencent-cloud-cls", 397)
        .encrypt_fields(&["secret_key"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

const PATH: &str = "/structuredlog";

/// How long a signature is good for.
const SIGNATURE_SECONDS: u64 = 60;

/// For a request; APISIX waits 10 s for each of sending and the answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The most that a value, and that a group of logs may have (<https://www.tencentcloud.com/document/product/614/16873>).
const VALUE_BYTES_MAX: usize = 1 << 20;
const GROUP_BYTES_MAX: usize = 5 << 20;

/// Statuses after which another try would end alike.
const HOPELESS: &[u16] = &[401, 403, 404, 413];

/// Renders entries as contents of a log.
pub struct TencentCloudCls {
    tags: Map<String, Value>,
    /// Of 2^32 requests so many are logged; `None`: all.
    sampled: Option<u32>,
    random: Arc<Random>,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    cls_host: String,
    cls_topic: String,
    scheme: String,
    ssl_verify: bool,
    secret_id: String,
    secret_key: Secret,
    sample_ratio: f64,
    #[serde(default)]
    global_tag: Map<String, Value>,
}

impl Collector for TencentCloudCls {
    type Config = Config;
    const NAME: &'static str = "tencent-cloud-cls";

    fn schema() -> Value {
        let text = |description: &str| json!({"description": description, "type": "string"});
        json!({
            "type": "object",
            "properties": {
                "cls_host": text("The service's name."),
                "cls_topic": text("The topic's id."),
                "scheme": {
                    "description": "How it is spoken with.",
                    "type": "string", "enum": ["http", "https"], "default": "https"
                },
                "ssl_verify": {
                    "description": "Whether its certificate has to be valid.", "type": "boolean", "default": true
                },
                "secret_id": text("The key's id."),
                "secret_key": text("The key."),
                "sample_ratio": {
                    "description": "The share of requests that are logged.",
                    "type": "number", "minimum": 0.00001, "maximum": 1, "default": 1
                },
                "global_tag": {"description": "Members of every entry.", "type": "object"}
            },
            "required": ["cls_host", "cls_topic", "secret_id", "secret_key"]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        cx: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let uri = format!("{}://{}{PATH}?topic_id={}", config.scheme, config.cls_host, config.cls_topic);
        let server = HttpCollector::new(vec![uri], TIMEOUT, config.ssl_verify)
            .failure_from(201)
            .hopeless(HOPELESS)
            .header("Content-Type", "application/x-protobuf");
        let topic = Topic { server, id: config.secret_id, key: config.secret_key, source: OnceLock::new() };
        let below_one = Some(config.sample_ratio).filter(|ratio| *ratio < 1.0);
        let sampled = below_one.map(|ratio| (ratio * f64::from(u32::MAX)) as u32);
        Ok((Self { tags: config.global_tag, sampled, random: cx.shared.get() }, Some(topic)))
    }

    fn draws(&self, exchange: &Exchange<'_>) -> bool {
        self.sampled.is_none_or(|most| self.random.below(u32::MAX, exchange) < most)
    }

    fn render(&self, mut entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        entry.fields.extend(self.tags.clone());
        let now_s = crate::logging::seconds(source, &Var::Msec).unwrap_or_default();
        log((now_s * 1000.0) as u64, &entry.fields)
    }
}

/// A length-delimited field of a protobuf message.
fn field(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A `Log`: its time in milliseconds, and its contents with a key and a value each.
fn log(time_ms: u64, members: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(1, WireType::Varint, &mut out);
    encode_varint(time_ms, &mut out);
    for (key, value) in members {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut end = value.len().min(VALUE_BYTES_MAX);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        let mut content = Vec::new();
        field(1, key.as_bytes(), &mut content);
        field(2, &value.as_bytes()[..end], &mut content);
        field(2, &content, &mut out);
    }
    out
}

/// A topic of the service.
struct Topic {
    server: HttpCollector,
    id: String,
    key: Secret,
    /// This machine's address.
    source: OnceLock<String>,
}

impl Topic {
    fn source(&self) -> &str {
        self.source.get_or_init(|| {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let found = (name.as_str(), 0).to_socket_addrs().ok().and_then(|mut found| found.next());
            found.map_or(name, |address| address.ip().to_string())
        })
    }
}

impl Destination for Topic {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        for group in groups(entries) {
            let signature = sign(&self.id, self.key.as_str(), delivery::unix_time_s());
            self.server.post_with(&[("Authorization", &signature)], &body(group, self.source()))?;
        }
        Ok(())
    }
}

/// The entries in groups of which each is as large as may be.
fn groups(entries: &[Vec<u8>]) -> Vec<&[Vec<u8>]> {
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, entry) in entries.iter().enumerate() {
        if bytes + entry.len() > GROUP_BYTES_MAX && at > start {
            groups.push(&entries[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += entry.len();
    }
    groups.push(&entries[start..]);
    groups
}

/// A `LogGroupList` with one group (<https://www.tencentcloud.com/document/product/614/42787>).
fn body(logs: &[Vec<u8>], source: &str) -> Vec<u8> {
    let mut group = Vec::new();
    logs.iter().for_each(|log| field(1, log, &mut group));
    field(4, source.as_bytes(), &mut group);
    let mut list = Vec::new();
    field(1, &group, &mut list);
    list
}

/// The `Authorization` of a request at `now` (<https://cloud.tencent.com/document/product/614/12445>).
fn sign(id: &str, key: &str, now: u64) -> String {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let mac = |key: &str, text: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
        hex(hmac::sign(&key, text.as_bytes()).as_ref())
    };
    let time = format!("{now};{}", now + SIGNATURE_SECONDS);
    let request = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("post\n{PATH}\n\n\n").as_bytes());
    let signature = mac(&mac(key, &time), &format!("sha1\n{time}\n{}\n", hex(request.as_ref())));
    format!(
        "q-sign-algorithm=sha1&q-ak={id}&q-sign-time={time}&q-key-time={time}&q-header-list=&q-url-param-list=&q-signature={signature}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_protobuf() {
        let Value::Object(members) = json!({"a": "b", "n": 1}) else { panic!("an object") };
        let log = log(300, &members);
        assert_eq!(log, b"\x08\xac\x02\x12\x06\x0a\x01a\x12\x01b\x12\x06\x0a\x01n\x12\x011");
        assert_eq!(body(&[b"x".to_vec()], "s"), b"\x0a\x06\x0a\x01x\x22\x01s");
    }

    #[test]
    fn groups_stay_below_the_limit() {
        let large = vec![0; GROUP_BYTES_MAX / 2 + 1];
        let entries = [large.clone(), large.clone(), vec![0], large];
        assert_eq!(groups(&entries).iter().map(|group| group.len()).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(groups(&entries[2..3]).len(), 1);
    }

    #[test]
    fn a_request_is_signed() {
        let signed = sign("id", "key", 1_600_000_000);
        // By `openssl dgst -sha1 -hmac`, step by step as the documentation has them.
        assert!(
            signed.starts_with("q-sign-algorithm=sha1&q-ak=id&q-sign-time=1600000000;1600000060&"),
            "{signed}"
        );
        assert!(signed.ends_with(EXPECTED), "{signed}");
    }

    const EXPECTED: &str = "&q-signature=2ef0902b327ab2c45d5775e76222d5b9975775e5";
}
