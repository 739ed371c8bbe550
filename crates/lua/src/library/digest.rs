//! Hashes and message authentication codes.

use md5::Md5;
use mlua::{Lua, LuaString, UserData, UserDataMethods};
use sha1::Sha1;
use sha2::digest::{Digest, FixedOutputReset};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::natives::Natives;

/// Adds `hash(algorithm, text)`, `hmac(algorithm, key, text)`, and the objects `hasher(algorithm)` and
/// `hmac_hasher(algorithm, key)`. An unknown algorithm gives `nil`.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    natives.function("hash", |lua, (algorithm, text): (LuaString, LuaString)| {
        digest_of(lua, Hash::named(&algorithm.as_bytes()), &text.as_bytes())
    })?;
    natives.function("hmac", |lua, (algorithm, key, text): (LuaString, LuaString, LuaString)| {
        let hmac = Hmac::named(&algorithm.as_bytes(), &key.as_bytes());
        hmac.map(|mut hmac| {
            hmac.update(&text.as_bytes());
            lua.create_string(hmac.finish())
        })
        .transpose()
    })?;
    natives.function("hasher", |_, algorithm: LuaString| {
        Ok(Hash::named(&algorithm.as_bytes()).map(|hash| Hasher { now: hash.clone(), start: hash }))
    })?;
    natives.function("hmac_hasher", |_, (algorithm, key): (LuaString, LuaString)| {
        Ok(Hmac::named(&algorithm.as_bytes(), &key.as_bytes()))
    })
}

fn digest_of(lua: &Lua, hash: Option<Hash>, text: &[u8]) -> mlua::Result<Option<LuaString>> {
    hash.map(|mut hash| {
        hash.update(text);
        lua.create_string(hash.finish())
    })
    .transpose()
}

/// A hash in progress. Its state is inline, so that the VM's memory limit counts it.
#[derive(Clone)]
pub(super) enum Hash {
    Md5(Md5),
    Sha1(Sha1),
    Sha224(Sha224),
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
}

impl Hash {
    /// The hash of this name, in any case, with or without `-`.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let name: Vec<u8> = name.iter().filter(|byte| **byte != b'-').map(u8::to_ascii_lowercase).collect();
        Some(match &name[..] {
            b"md5" => Self::Md5(Md5::new()),
            b"sha1" => Self::Sha1(Sha1::new()),
            b"sha224" => Self::Sha224(Sha224::new()),
            b"sha256" => Self::Sha256(Sha256::new()),
            b"sha384" => Self::Sha384(Sha384::new()),
            b"sha512" => Self::Sha512(Sha512::new()),
            _ => return None,
        })
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hash) => hash.update(bytes),
            Self::Sha1(hash) => Digest::update(hash, bytes),
            Self::Sha224(hash) => Digest::update(hash, bytes),
            Self::Sha256(hash) => Digest::update(hash, bytes),
            Self::Sha384(hash) => Digest::update(hash, bytes),
            Self::Sha512(hash) => Digest::update(hash, bytes),
        }
    }

    /// The digest; the hash begins anew.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        match self {
            Self::Md5(hash) => hash.finalize_fixed_reset().to_vec(),
            Self::Sha1(hash) => hash.finalize_fixed_reset().to_vec(),
            Self::Sha224(hash) => hash.finalize_fixed_reset().to_vec(),
            Self::Sha256(hash) => hash.finalize_fixed_reset().to_vec(),
            Self::Sha384(hash) => hash.finalize_fixed_reset().to_vec(),
            Self::Sha512(hash) => hash.finalize_fixed_reset().to_vec(),
        }
    }

    /// Bytes of a block, which HMAC pads its key to.
    fn block_bytes(&self) -> usize {
        match self {
            Self::Sha384(_) | Self::Sha512(_) => 128,
            _ => 64,
        }
    }
}

struct Hasher {
    start: Hash,
    now: Hash,
}

impl UserData for Hasher {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("update", |_, this, (text, length): (LuaString, Option<usize>)| {
            let bytes = text.as_bytes();
            this.now.update(bytes.get(..length.unwrap_or(bytes.len())).unwrap_or(&bytes));
            Ok(true)
        });
        methods.add_method_mut("final", |lua, this, text: Option<LuaString>| {
            if let Some(text) = text {
                this.now.update(&text.as_bytes());
            }
            lua.create_string(this.now.finish())
        });
        methods.add_method_mut("reset", |_, this, ()| {
            this.now = this.start.clone();
            Ok(true)
        });
    }
}

/// HMAC (RFC 2104) in progress.
struct Hmac {
    /// The hashes after the padded keys.
    inner: Hash,
    outer: Hash,
    now: Hash,
}

impl Hmac {
    fn named(name: &[u8], key: &[u8]) -> Option<Self> {
        let hash = Hash::named(name)?;
        let mut padded = key.to_vec();
        if padded.len() > hash.block_bytes() {
            let mut of_key = hash.clone();
            of_key.update(key);
            padded = of_key.finish();
        }
        padded.resize(hash.block_bytes(), 0);
        let (mut inner, mut outer) = (hash.clone(), hash);
        inner.update(&padded.iter().map(|byte| byte ^ 0x36).collect::<Vec<_>>());
        outer.update(&padded.iter().map(|byte| byte ^ 0x5C).collect::<Vec<_>>());
        Some(Self { now: inner.clone(), inner, outer })
    }

    fn update(&mut self, bytes: &[u8]) {
        self.now.update(bytes);
    }

    /// The code; the next one begins.
    fn finish(&mut self) -> Vec<u8> {
        let inner = self.now.finish();
        self.now = self.inner.clone();
        let mut outer = self.outer.clone();
        outer.update(&inner);
        outer.finish()
    }
}

impl UserData for Hmac {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("update", |_, this, text: LuaString| {
            this.update(&text.as_bytes());
            Ok(true)
        });
        methods.add_method_mut(
            "final",
            |lua, this, (text, hexadecimal): (Option<LuaString>, Option<bool>)| {
                if let Some(text) = text {
                    this.update(&text.as_bytes());
                }
                let code = this.finish();
                if hexadecimal.unwrap_or(false) {
                    return lua
                        .create_string(code.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
                }
                lua.create_string(code)
            },
        );
        methods.add_method_mut("reset", |_, this, ()| {
            this.now = this.inner.clone();
            Ok(true)
        });
    }
}
