//! Reads an MQTT client's CONNECT packet: checks the protocol and its version, and provides the client id for load
//! balancing.
//!
//! ## When to use
//! Use it on a stream route to MQTT brokers. With `"type": "chash"` and `"key": "mqtt_client_id"` in the upstream, a
//! client reaches the same broker again. A client without an id is balanced by its address.
//!
//! ## Example
//! ```json
//! {
//!     "mqtt-proxy": {
//!         "protocol_name": "MQTT",
//!         "protocol_level": 4
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - The plugin does not wait for the part of the CONNECT packet that follows the client id, and does not limit its length.

use model::ConfigError;
use plugin::{CompileContext, OnPreread, Plugin, PluginDef, Session, StreamFlow};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's entry in the registry of streams.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<MqttProxy>("mqtt-proxy", 1000).on_preread().build()
}

/// The status that the log says of a client that speaks otherwise: APISIX's.
const REFUSED: u16 = 503;

/// Type and flags of CONNECT (MQTT 5 section 2.1).
const CONNECT: u8 = 0x10;

/// The version from which on CONNECT has properties.
const LEVEL_WITH_PROPERTIES: u8 = 5;

/// Bytes of a variable byte integer at most (section 1.5.5).
const VARINT_MAX: usize = 4;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    protocol_name: String,
    protocol_level: i64,
}

/// The compiled form.
pub struct MqttProxy {
    name: Vec<u8>,
    level: i64,
}

/// What is of interest in a CONNECT packet.
#[derive(Debug, PartialEq, Eq)]
struct Connect<'b> {
    name: &'b [u8],
    level: u8,
    client_id: &'b [u8],
}

impl Plugin for MqttProxy {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self { name: config.protocol_name.into_bytes(), level: config.protocol_level })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "protocol_name": {"type": "string", "default": "MQTT"},
                "protocol_level": {"type": "integer"}
            },
            "required": ["protocol_level"]
        })
    }
}

impl OnPreread for MqttProxy {
    fn preread(&self, session: &mut Session<'_>, bytes: &[u8]) -> StreamFlow {
        let connect = match Connect::parse(bytes) {
            Ok(Some(connect)) => connect,
            Ok(None) => return StreamFlow::More,
            Err(reason) => {
                tracing::error!("mqtt-proxy: {reason}");
                return StreamFlow::Refuse(REFUSED);
            }
        };
        if connect.name != self.name || i64::from(connect.level) != self.level {
            let (name, level) = (String::from_utf8_lossy(connect.name), connect.level);
            tracing::error!(%name, level, "mqtt-proxy: another protocol is expected");
            return StreamFlow::Refuse(REFUSED);
        }
        if !connect.client_id.is_empty() {
            session.vars.push(("mqtt_client_id", connect.client_id.to_vec()));
        }
        StreamFlow::Next
    }
}

impl<'b> Connect<'b> {
    /// Reads a packet as far as its client id; `None` where that is not complete yet.
    ///
    /// # Errors
    /// Why no further byte can make it one.
    fn parse(bytes: &'b [u8]) -> Result<Option<Self>, &'static str> {
        match bytes.first() {
            None => return Ok(None),
            Some(&CONNECT) => {}
            Some(_) => return Err("the first packet is not CONNECT"),
        }
        let (length, body) = match varint(&bytes[1..]) {
            Ok(read) => read,
            Err(End::Incomplete) => return Ok(None),
            Err(End::Malformed) => return Err("the packet's length is malformed"),
        };
        let whole = body.len() >= length;
        let body = &body[..body.len().min(length)];
        match Self::read(body) {
            Ok(connect) => Ok(Some(connect)),
            Err(End::Incomplete) if !whole => Ok(None),
            Err(_) => Err("the CONNECT packet is malformed"),
        }
    }

    fn read(body: &'b [u8]) -> Result<Self, End> {
        let (name, rest) = string(body)?;
        // The level, then flags and the keep-alive time.
        let (&[level, _, _, _], mut rest) = rest.split_first_chunk().ok_or(End::Incomplete)?;
        if level == LEVEL_WITH_PROPERTIES {
            let (length, properties) = varint(rest)?;
            rest = properties.get(length..).ok_or(End::Incomplete)?;
        }
        let (client_id, _) = string(rest)?;
        Ok(Self { name, level, client_id })
    }
}

/// Why a value could not be read.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Incomplete,
    Malformed,
}

/// A text with its length before it, and what follows.
fn string(bytes: &[u8]) -> Result<(&[u8], &[u8]), End> {
    let (length, rest) = bytes.split_first_chunk().ok_or(End::Incomplete)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length))).ok_or(End::Incomplete)
}

/// A variable byte integer, and what follows.
fn varint(bytes: &[u8]) -> Result<(usize, &[u8]), End> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(VARINT_MAX).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[at + 1..]));
        }
    }
    Err(if bytes.len() < VARINT_MAX { End::Incomplete } else { End::Malformed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    const MQTT_4: &[u8] = b"\x10\x0f\0\x04MQTT\x04\x02\0\x3c\0\x03foo";
    const MQTT_5: &[u8] = b"\x10\x15\0\x04MQTT\x05\x02\0\x3c\x05\x11\0\0\0\x0a\0\x03bar";

    #[test]
    fn clients_of_the_expected_protocol_are_known_by_their_id() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let chain = |level: u8| {
            testkit::chain(&registry, &json!({"mqtt-proxy": {"protocol_level": level}})).expect("valid")
        };
        let no_id = b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0";
        let other = b"\x10\x0f\0\x04MQTX\x04\x02\0\x3c\0\x03foo";
        let lies = b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\x03foo";
        let long = b"\x10\xff\xff\xff\xff\0\x04MQTT";
        for (level, bytes, expected, id) in [
            (4, MQTT_4, StreamFlow::Next, Some("foo")),
            (5, MQTT_5, StreamFlow::Next, Some("bar")),
            (4, no_id, StreamFlow::Next, None),
            (5, MQTT_4, StreamFlow::Refuse(503), None),
            (4, other, StreamFlow::Refuse(503), None),
            (4, lies, StreamFlow::Refuse(503), None),
            (4, long, StreamFlow::Refuse(503), None),
            (4, b"GET / HTTP/1.1\r\n", StreamFlow::Refuse(503), None),
        ] {
            let bench = Bench::new("GET /");
            let mut session = bench.session();
            assert_eq!(testkit::preread(&chain(level), &mut session, bytes), expected, "{bytes:?}");
            let set = session.vars.first().map(|(name, value)| (*name, &**value));
            assert_eq!(set, id.map(|id| ("mqtt_client_id", id.as_bytes())), "{bytes:?}");
        }
        let bench = Bench::new("GET /");
        let session = &mut bench.session();
        for end in 0..MQTT_5.len() {
            assert_eq!(testkit::preread(&chain(5), session, &MQTT_5[..end]), StreamFlow::More, "{end}");
        }
    }
}
