//! Signatures with RSA, ECDSA and Ed25519 keys in PEM.

use mlua::{IntoLuaMulti, LuaString, Value};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair, UnparsedPublicKey};

use super::natives::Natives;
use super::pem::{self, PrivateKey};

/// Adds `signature_make(algorithm, pem, text, asn1)` and `signature_check(algorithm, pem, text, signature, asn1)`, which
/// returns whether the signature is that of the text. Algorithms have the names of RFC 7518; ECDSA's signatures have its
/// form as well, or that of RFC 3279 with `asn1`.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    type Make = (String, LuaString, LuaString, bool);
    natives.function("signature_make", |lua, (algorithm, pem, text, asn1): Make| {
        match make(&algorithm, &pem.to_string_lossy(), &text.as_bytes(), asn1) {
            Ok(signature) => lua.create_string(signature)?.into_lua_multi(lua),
            Err(message) => (Value::Nil, message).into_lua_multi(lua),
        }
    })?;
    type Check = (String, LuaString, LuaString, LuaString, bool);
    natives.function(
        "signature_check",
        |lua, (algorithm, pem, text, signature, asn1): Check| match check(
            &algorithm,
            &pem.to_string_lossy(),
            &text.as_bytes(),
            &signature.as_bytes(),
            asn1,
        ) {
            Ok(valid) => valid.into_lua_multi(lua),
            Err(message) => (Value::Nil, message).into_lua_multi(lua),
        },
    )?;
    natives.function("key_kind", |_, pem: LuaString| Ok(pem::kind(&pem.to_string_lossy())))
}

fn verification(algorithm: &str, asn1: bool) -> Option<&'static dyn signature::VerificationAlgorithm> {
    Some(match (algorithm, asn1) {
        ("RS256", _) => &signature::RSA_PKCS1_2048_8192_SHA256,
        ("RS384", _) => &signature::RSA_PKCS1_2048_8192_SHA384,
        ("RS512", _) => &signature::RSA_PKCS1_2048_8192_SHA512,
        ("PS256", _) => &signature::RSA_PSS_2048_8192_SHA256,
        ("PS384", _) => &signature::RSA_PSS_2048_8192_SHA384,
        ("PS512", _) => &signature::RSA_PSS_2048_8192_SHA512,
        ("ES256", false) => &signature::ECDSA_P256_SHA256_FIXED,
        ("ES256", true) => &signature::ECDSA_P256_SHA256_ASN1,
        ("ES384", false) => &signature::ECDSA_P384_SHA384_FIXED,
        ("ES384", true) => &signature::ECDSA_P384_SHA384_ASN1,
        ("EdDSA", _) => &signature::ED25519,
        _ => return None,
    })
}

fn check(algorithm: &str, pem: &str, text: &[u8], signature: &[u8], asn1: bool) -> Result<bool, String> {
    let verification =
        verification(algorithm, asn1).ok_or_else(|| format!("unsupported algorithm {algorithm}"))?;
    let key = pem::public_key(pem).ok_or("not a public key or certificate in PEM")?;
    Ok(UnparsedPublicKey::new(verification, key).verify(text, signature).is_ok())
}

fn make(algorithm: &str, pem: &str, text: &[u8], asn1: bool) -> Result<Vec<u8>, String> {
    let random = SystemRandom::new();
    let key = pem::private_key(pem).ok_or("not a private key in PEM")?;
    let padding: &dyn signature::RsaEncoding = match algorithm {
        "RS256" => &signature::RSA_PKCS1_SHA256,
        "RS384" => &signature::RSA_PKCS1_SHA384,
        "RS512" => &signature::RSA_PKCS1_SHA512,
        "PS256" => &signature::RSA_PSS_SHA256,
        "PS384" => &signature::RSA_PSS_SHA384,
        "PS512" => &signature::RSA_PSS_SHA512,
        "ES256" | "ES384" => return ecdsa(algorithm, &key, text, asn1, &random),
        "EdDSA" => {
            let PrivateKey::Pkcs8(der) = &key else { return Err("not an Ed25519 key".to_owned()) };
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|error| error.to_string())?;
            return Ok(pair.sign(text).as_ref().to_vec());
        }
        _ => return Err(format!("unsupported algorithm {algorithm}")),
    };
    let pair = match &key {
        PrivateKey::Pkcs8(der) => RsaKeyPair::from_pkcs8(der),
        PrivateKey::Pkcs1(der) => RsaKeyPair::from_der(der),
        PrivateKey::Sec1 { .. } => return Err("not an RSA key".to_owned()),
    };
    let pair = pair.map_err(|error| error.to_string())?;
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(padding, &random, text, &mut signature).map_err(|error| error.to_string())?;
    Ok(signature)
}

fn ecdsa(
    algorithm: &str,
    key: &PrivateKey,
    text: &[u8],
    asn1: bool,
    random: &SystemRandom,
) -> Result<Vec<u8>, String> {
    let signing = match (algorithm, asn1) {
        ("ES256", false) => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        ("ES256", true) => &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
        (_, false) => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        (_, true) => &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
    };
    let pair = match key {
        PrivateKey::Pkcs8(der) => EcdsaKeyPair::from_pkcs8(signing, der, random),
        PrivateKey::Sec1 { scalar, point } => {
            EcdsaKeyPair::from_private_key_and_public_key(signing, scalar, point, random)
        }
        PrivateKey::Pkcs1(_) => return Err("not an EC key".to_owned()),
    };
    let pair = pair.map_err(|error| error.to_string())?;
    pair.sign(random, text).map(|signature| signature.as_ref().to_vec()).map_err(|error| error.to_string())
}
