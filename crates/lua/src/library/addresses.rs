//! IP addresses as bytes, for matching with networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mlua::LuaString;

use super::natives::Natives;

/// Adds `address_bytes(text)`, which returns 4 or 16 bytes, or `nil`; and `address_masked(bytes, prefix)`, which returns
/// the bytes with all bits after the first `prefix` cleared.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    natives.function("address_bytes", |lua, text: LuaString| {
        let text = text.as_bytes();
        let address = str::from_utf8(&text).ok().and_then(parse);
        address
            .map(|address| match address {
                IpAddr::V4(address) => lua.create_string(address.octets()),
                IpAddr::V6(address) => lua.create_string(address.octets()),
            })
            .transpose()
    })?;
    natives.function("address_masked", |lua, (bytes, prefix): (LuaString, u32)| {
        let mut bytes = bytes.as_bytes().to_vec();
        for (byte, first) in bytes.iter_mut().zip((0_u32..).step_by(8)) {
            *byte &= !(0xFF_u8.checked_shr(prefix.saturating_sub(first)).unwrap_or(0));
        }
        lua.create_string(bytes)
    })
}

fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(IpAddr::V4(address));
    }
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}
