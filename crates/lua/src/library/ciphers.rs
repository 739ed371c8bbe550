//! AES: ECB, CBC and CTR with any key size, GCM with 128 and 256 bits; and OpenSSL's derivation of keys from passwords.

use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Value};
use ring::aead;

use super::digest::Hash;
use super::natives::Natives;

const BLOCK: usize = 16;
type Block = [u8; BLOCK];

/// Rounds of the derivation of a key. lua-resty-string's examples have five.
const ROUNDS_MAX: usize = 100_000;

/// Adds `aes_encrypt(mode, key, iv, text, padded, additional)`, which returns the cipher text and GCM's tag;
/// `aes_decrypt(mode, key, iv, text, padded, additional, tag)`; and
/// `key_from_password(hash, salt, password, rounds, key_bytes, iv_bytes)`, which returns a key and a vector.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    type Encrypt = (LuaString, LuaString, LuaString, LuaString, bool, Option<LuaString>);
    natives.function("aes_encrypt", |lua, (mode, key, iv, text, padded, additional): Encrypt| {
        let additional = additional.map(|text| text.as_bytes().to_vec()).unwrap_or_default();
        let (key, iv, text) = (key.as_bytes(), iv.as_bytes(), text.as_bytes());
        if &*mode.as_bytes() == b"gcm" {
            return answer(lua, gcm_seal(&key, &iv, &text, &additional).map(|(text, tag)| (text, Some(tag))));
        }
        answer(lua, encrypt(&mode.as_bytes(), &key, &iv, &text, padded).map(|text| (text, None)))
    })?;
    type Decrypt = (LuaString, LuaString, LuaString, LuaString, bool, Option<LuaString>, Option<LuaString>);
    natives.function("aes_decrypt", |lua, (mode, key, iv, text, padded, additional, tag): Decrypt| {
        let additional = additional.map(|text| text.as_bytes().to_vec()).unwrap_or_default();
        let tag = tag.map(|tag| tag.as_bytes().to_vec()).unwrap_or_default();
        let (key, iv, text) = (key.as_bytes(), iv.as_bytes(), text.as_bytes());
        let plain = if &*mode.as_bytes() == b"gcm" {
            gcm_open(&key, &iv, &text, &additional, &tag)
        } else {
            decrypt(&mode.as_bytes(), &key, &iv, &text, padded)
        };
        answer(lua, plain.map(|text| (text, None)))
    })?;
    type Derive = (LuaString, Option<LuaString>, LuaString, usize, usize, usize);
    natives.function("key_from_password", |lua, (hash, salt, password, rounds, key, iv): Derive| {
        let salt = salt.map(|salt| salt.as_bytes().to_vec()).unwrap_or_default();
        let Some(hash) = Hash::named(&hash.as_bytes()) else {
            return (Value::Nil, Value::Nil).into_lua_multi(lua);
        };
        // No cipher has longer ones.
        let (key, iv) = (key.min(64), iv.min(64));
        let bytes = derived(hash, &salt, &password.as_bytes(), rounds.clamp(1, ROUNDS_MAX), key + iv);
        (lua.create_string(&bytes[..key])?, lua.create_string(&bytes[key..])?).into_lua_multi(lua)
    })
}

type Sealed = (Vec<u8>, Option<Vec<u8>>);

fn answer(lua: &Lua, result: Result<Sealed, &'static str>) -> mlua::Result<MultiValue> {
    match result {
        Ok((text, tag)) => {
            (lua.create_string(text)?, tag.map(|tag| lua.create_string(tag)).transpose()?).into_lua_multi(lua)
        }
        Err(message) => (Value::Nil, message).into_lua_multi(lua),
    }
}

enum Cipher {
    Aes128(Aes128),
    Aes192(Aes192),
    Aes256(Aes256),
}

impl Cipher {
    fn new(key: &[u8]) -> Result<Self, &'static str> {
        let cipher = match key.len() {
            16 => Aes128::new_from_slice(key).ok().map(Self::Aes128),
            24 => Aes192::new_from_slice(key).ok().map(Self::Aes192),
            _ => Aes256::new_from_slice(key).ok().map(Self::Aes256),
        };
        cipher.ok_or("bad key length")
    }

    fn encrypt(&self, mut block: Block) -> Block {
        let bytes = GenericArray::from_mut_slice(&mut block);
        match self {
            Self::Aes128(aes) => aes.encrypt_block(bytes),
            Self::Aes192(aes) => aes.encrypt_block(bytes),
            Self::Aes256(aes) => aes.encrypt_block(bytes),
        }
        block
    }

    fn decrypt(&self, mut block: Block) -> Block {
        let bytes = GenericArray::from_mut_slice(&mut block);
        match self {
            Self::Aes128(aes) => aes.decrypt_block(bytes),
            Self::Aes192(aes) => aes.decrypt_block(bytes),
            Self::Aes256(aes) => aes.decrypt_block(bytes),
        }
        block
    }
}

fn block(bytes: &[u8]) -> Result<Block, &'static str> {
    bytes.try_into().map_err(|_| "bad iv length")
}

fn xor(a: Block, b: Block) -> Block {
    std::array::from_fn(|at| a[at] ^ b[at])
}

fn encrypt(mode: &[u8], key: &[u8], iv: &[u8], text: &[u8], padded: bool) -> Result<Vec<u8>, &'static str> {
    let cipher = Cipher::new(key)?;
    if mode == b"ctr" {
        return Ok(counter(&cipher, block(iv)?, text));
    }
    let mut text = text.to_vec();
    if padded {
        // PKCS #7: the padding's length in each of its bytes.
        let length = BLOCK - text.len() % BLOCK;
        text.resize(text.len() + length, u8::try_from(length).unwrap_or(0));
    }
    let (blocks, rest) = text.as_chunks_mut::<BLOCK>();
    if !rest.is_empty() {
        return Err("data not multiple of block length");
    }
    match mode {
        b"ecb" => blocks.iter_mut().for_each(|block| *block = cipher.encrypt(*block)),
        b"cbc" => {
            let mut before = block(iv)?;
            for block in blocks {
                *block = cipher.encrypt(xor(*block, before));
                before = *block;
            }
        }
        _ => return Err("unsupported cipher"),
    }
    Ok(text)
}

fn decrypt(mode: &[u8], key: &[u8], iv: &[u8], text: &[u8], padded: bool) -> Result<Vec<u8>, &'static str> {
    let cipher = Cipher::new(key)?;
    if mode == b"ctr" {
        return Ok(counter(&cipher, block(iv)?, text));
    }
    let mut text = text.to_vec();
    let (blocks, rest) = text.as_chunks_mut::<BLOCK>();
    if !rest.is_empty() {
        return Err("wrong final block length");
    }
    match mode {
        b"ecb" => blocks.iter_mut().for_each(|block| *block = cipher.decrypt(*block)),
        b"cbc" => {
            let mut before = block(iv)?;
            for block in blocks {
                let sealed = *block;
                *block = xor(cipher.decrypt(sealed), before);
                before = sealed;
            }
        }
        _ => return Err("unsupported cipher"),
    }
    if padded {
        let length = usize::from(text.last().copied().ok_or("wrong final block length")?);
        let body =
            text.len().checked_sub(length).filter(|_| (1..=BLOCK).contains(&length)).ok_or("bad decrypt")?;
        if text[body..].iter().any(|byte| usize::from(*byte) != length) {
            return Err("bad decrypt");
        }
        text.truncate(body);
    }
    Ok(text)
}

fn counter(cipher: &Cipher, iv: Block, text: &[u8]) -> Vec<u8> {
    let mut count = u128::from_be_bytes(iv);
    let mut out = text.to_vec();
    for chunk in out.chunks_mut(BLOCK) {
        let stream = cipher.encrypt(count.to_be_bytes());
        chunk.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
        count = count.wrapping_add(1);
    }
    out
}

fn gcm_key(key: &[u8]) -> Result<aead::LessSafeKey, &'static str> {
    let algorithm = match key.len() {
        16 => &aead::AES_128_GCM,
        32 => &aead::AES_256_GCM,
        24 => return Err("AES-192-GCM is not supported"),
        _ => return Err("bad key length"),
    };
    aead::UnboundKey::new(algorithm, key).map(aead::LessSafeKey::new).map_err(|_| "bad key length")
}

fn gcm_seal(
    key: &[u8],
    iv: &[u8],
    text: &[u8],
    additional: &[u8],
) -> Result<(Vec<u8>, Vec<u8>), &'static str> {
    let nonce = aead::Nonce::try_assume_unique_for_key(iv).map_err(|_| "bad iv length")?;
    let mut text = text.to_vec();
    let tag = gcm_key(key)?.seal_in_place_separate_tag(nonce, aead::Aad::from(additional), &mut text);
    tag.map(|tag| (text, tag.as_ref().to_vec())).map_err(|_| "the text is too long")
}

fn gcm_open(
    key: &[u8],
    iv: &[u8],
    text: &[u8],
    additional: &[u8],
    tag: &[u8],
) -> Result<Vec<u8>, &'static str> {
    let nonce = aead::Nonce::try_assume_unique_for_key(iv).map_err(|_| "bad iv length")?;
    let mut sealed = [text, tag].concat();
    let opened = gcm_key(key)?.open_in_place(nonce, aead::Aad::from(additional), &mut sealed);
    opened.map(|text| text.to_vec()).map_err(|_| "bad decrypt")
}

/// What OpenSSL's `EVP_BytesToKey` makes of a password: digests of the previous digest, the password and the salt.
fn derived(mut hash: Hash, salt: &[u8], password: &[u8], rounds: usize, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut before = Vec::new();
    while out.len() < length {
        hash.update(&before);
        hash.update(password);
        hash.update(salt);
        before = hash.finish();
        for _ in 1..rounds {
            hash.update(&before);
            before = hash.finish();
        }
        out.extend_from_slice(&before);
    }
    out.truncate(length);
    out
}
