//! Random bytes from the system.

use mlua::LuaString;
use ring::rand::{SecureRandom, SystemRandom};

use super::natives::Natives;

/// Bytes of one call. Larger requests are mistakes.
const BYTES_MAX: usize = 1 << 20;

/// Adds `random_bytes(count)`, which returns `nil` for more than a mebibyte.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    natives.function("random_bytes", |lua, count: usize| -> mlua::Result<Option<LuaString>> {
        if count > BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; count];
        match SystemRandom::new().fill(&mut bytes) {
            Ok(()) => lua.create_string(bytes).map(Some),
            Err(_) => Ok(None),
        }
    })
}
