//! Which node of a cluster has a key: the Redis Cluster specification.

use super::endpoint::Address;
use super::request::{number, text};
use redis::Value;
use std::collections::BTreeMap;

/// Slots that keys are spread over.
const SLOTS: u16 = 16_384;

/// Ranges that a list of slots may have: each slot one of its own.
const RANGES_MAX: usize = SLOTS as usize;

/// The slot of a key: that of the text between the first `{` and the next `}`, where there is some.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        Some(&rest[..length])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, beginning with 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// The masters of a cluster by slot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Slots {
    /// First slot to last slot and address; no two overlap.
    ranges: BTreeMap<u16, (u16, Address)>,
    /// Slots that nodes said to be elsewhere since the list was read.
    moved: BTreeMap<u16, Address>,
}

impl Slots {
    /// Reads the reply to `CLUSTER SLOTS` of the node at `from`. `None` where it is none.
    pub(super) fn read(reply: &Value, from: &Address) -> Option<Self> {
        let Value::Array(entries) = reply else { return None };
        if entries.len() > RANGES_MAX {
            return None;
        }
        let mut ranges = BTreeMap::new();
        for entry in entries {
            let Value::Array(parts) = entry else { return None };
            let [first, last, Value::Array(master), ..] = parts.as_slice() else { return None };
            let slot = |value: &Value| number(value).map(|slot| slot as u16).filter(|slot| *slot < SLOTS);
            let (first, last) = (slot(first)?, slot(last)?);
            let [host, port, ..] = master.as_slice() else { return None };
            // Without a host, or with `?`, a node that does not know its own name means the one that was asked.
            let host = text(host).filter(|host| !matches!(*host, "" | "?")).unwrap_or(&from.host);
            let port = number(port).map(|port| port as u16).filter(|port| *port > 0)?;
            ranges.insert(first, (last, Address { host: host.into(), port }));
        }
        Some(Self { ranges, moved: BTreeMap::new() })
    }

    /// The node that has `slot`.
    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        self.moved.get(&slot).or_else(|| {
            let (_, (last, address)) = self.ranges.range(..=slot).next_back()?;
            (slot <= *last).then_some(address)
        })
    }

    /// Notes that `slot` is at `address`.
    pub(super) fn set(&mut self, slot: u16, address: Address) {
        self.moved.insert(slot, address);
    }

    /// All nodes, each once.
    pub(super) fn nodes(&self) -> Vec<Address> {
        let mut nodes: Vec<Address> = Vec::new();
        for address in self.ranges.values().map(|(_, address)| address).chain(self.moved.values()) {
            if !nodes.contains(address) {
                nodes.push(address.clone());
            }
        }
        nodes
    }
}

/// Where a node sends the one who asks: the address in `MOVED 3999 127.0.0.1:6381`, after the error's first word. An
/// address without a host is at the node that says so.
pub(super) fn redirection(detail: &str, from: &Address) -> Option<Address> {
    let (_, address) = detail.split_once(' ')?;
    match address.strip_prefix(':').filter(|rest| !rest.contains(':')) {
        Some(port) => {
            let port = port.parse().ok().filter(|port| *port > 0)?;
            Some(Address { host: from.host.clone(), port })
        }
        None => Address::parse(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).expect("an address")
    }

    #[test]
    fn keys_have_the_slots_of_the_specification() {
        // The first figure is the specification's own example of the checksum; others were asked of a server.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [
            ("", 0),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("a{foo}b{bar}", 12_182),
            ("{user1000}.following", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn the_list_of_slots_is_read_and_corrected() {
        let node =
            |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::SimpleString("id".into())]);
        let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node]);
        let bulk = |text: &str| Value::BulkString(text.into());
        let reply = Value::Array(vec![
            range(0, 5460, node(bulk("10.0.0.1"), 7000)),
            range(5461, 9000, node(Value::Nil, 7001)),
            range(10_000, 16_383, node(bulk("?"), 7002)),
        ]);
        let mut slots = Slots::read(&reply, &address("a:1")).expect("a list");
        let owner = |slots: &Slots, slot| slots.owner(slot).map(ToString::to_string);
        for (slot, expected) in [
            (0, Some("10.0.0.1:7000")),
            (5460, Some("10.0.0.1:7000")),
            (5461, Some("a:7001")),
            (9001, None),
            (16_383, Some("a:7002")),
        ] {
            assert_eq!(owner(&slots, slot).as_deref(), expected, "{slot}");
        }
        slots.set(9001, address("b:1"));
        slots.set(0, address("b:1"));
        assert_eq!([0, 9001].map(|slot| owner(&slots, slot)), [Some("b:1".into()), Some("b:1".into())]);
        assert_eq!(slots.nodes().len(), 4);
        for lie in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(0, 20_000, node(bulk("a"), 1))]),
            Value::Array(vec![range(0, 1, node(bulk("a"), 0))]),
            Value::Array(vec![range(0, 1, Value::Array(vec![]))]),
        ] {
            assert_eq!(Slots::read(&lie, &address("a:1")), None, "{lie:?}");
        }
    }

    #[test]
    fn redirections_are_read() {
        let from = address("10.0.0.9:7000");
        for (detail, expected) in [
            ("3999 127.0.0.1:6381", Some("127.0.0.1:6381")),
            ("3999 ::1:6381", Some("[::1]:6381")),
            ("3999 :6381", Some("10.0.0.9:6381")),
            ("3999", None),
            ("3999 host", None),
            ("3999 :0", None),
        ] {
            let read = redirection(detail, &from).map(|address| address.to_string());
            assert_eq!(read.as_deref(), expected, "{detail}");
        }
    }
}
