//! Digests, ciphers, signatures, random values: compared with what OpenSSL 3.0 answers.

use super::{check, eval, vm};

/// Signatures of `hello` that `openssl dgst -sha256 -sign` made with the keys in `keys`.
const RSA_SIGNATURE: &str = "KVXIgZ//bh9/Co856FWqSsLfjg64u6Lw5Mh9Yw4q8YIaa/VDW+sKoQEAmG29FQbkmZhppL+s/7xFQOlEwZOtjNhiH4O0VMaaPO/VvvRdUW+vqtC4S/P0Q8wNOxwIewzqKiTASS/Gro7FY/fMYYM01EnaItlkVsAAFzNJSSxIrX6b3iLE5FtOURaIakRV4DCLKXpCKKgBoZCZisHyGjvMC0ALXCX5QePigjfLqmLSxfEq6hLbte4N3KDqYU91CzxBaue5zxQ0fp3VLR68gkGCO7S9shjLD4fc8bMYth70Rt8ZiTlSDkT/g/2kL88DaMO9MASENIzjMMRcqcjXbuzacg==";
const EC_SIGNATURE: &str =
    "MEUCIQD6bSexDCRS2DvL3n+Jqx7OIl7IQ/m3OfAtERsE4wwAuQIgKNyEfgHnb4BgApR+3z8ZlGDMj3n833DfUmn0BzimKB4=";

#[test]
fn digests_agree_with_openssl() {
    let lua = vm();
    for (name, expected) in [
        ("md5", "5d41402abc4b2a76b9719d911017c592"),
        ("sha1", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
        ("sha224", "ea09ae9cc6768c50fcee903ed054556e5bfc8347907f12598aa24193"),
        ("sha256", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
        (
            "sha384",
            "59e1748777448c69de6b800d7a33bbfb9ff1b463e44354c3553bcdb9c666fa90125a3c79f90397bdf5f6a13de828684f",
        ),
        (
            "sha512",
            "9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043",
        ),
    ] {
        let code = format!(
            "local h = require('resty.{name}'):new() local ok = h:update('hel') h:update('loxx', 2)
            local first = require('resty.string').to_hex(h:final())
            h:reset() h:update('hello') return ok, first == require('resty.string').to_hex(h:final()), first"
        );
        assert_eq!(eval(&lua, &code), format!("true|true|{expected}"), "{name}");
    }
}

#[test]
fn message_authentication_codes_agree_with_openssl() {
    check(&[
        (
            "local h = require('resty.hmac') local m = h:new('key', h.ALGOS.SHA256) m:update('hel') return m:final('lo', true), m:reset(), m:final('hello', true)",
            "9307b3b915efb5171ff14d8cb55fbcc798c6c0ef1456d66ded1a6aa723a58b7b|true|9307b3b915efb5171ff14d8cb55fbcc798c6c0ef1456d66ded1a6aa723a58b7b",
        ),
        (
            "local h = require('resty.hmac') return h:new('key', h.ALGOS.MD5):final('hello', true)",
            "04130747afca4d79e32e87cf2104f087",
        ),
        (
            "local h = require('resty.hmac') return h:new('key', h.ALGOS.SHA224):final('hello', true)",
            "6b30a4ecbe38b6a90d7dd0ac3ef17aa68c0aa8bd5c79d2b219f4e6f6",
        ),
        (
            "require('resty.openssl.hmac').new('key', 'sha384'):final('hello') == require('resty.hmac'):new('key', 'sha384'):final('hello')",
            "true",
        ),
        (
            "local d = require('resty.openssl.digest').new('sha256') d:update('he', 'llo') return require('resty.string').to_hex(d:final())",
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        ),
        (
            "local m = require('resty.openssl.mac') return m.new('key', 'HMAC', nil, 'sha256'):final('hello') == m.new('key', 'HMAC', nil, 'sha256'):final('hello'), require('resty.string').to_hex(m.new('key', 'HMAC', nil, 'sha256'):final('hello'))",
            "true|9307b3b915efb5171ff14d8cb55fbcc798c6c0ef1456d66ded1a6aa723a58b7b",
        ),
        ("require('resty.openssl.digest').new('whirlpool')", "nil|invalid digest type \"whirlpool\""),
    ]);
}

#[test]
fn aes_agrees_with_openssl() {
    let key = "local aes, hex = require('resty.aes'), require('resty.string').to_hex
        local iv = ('\\16\\17\\18\\19\\20\\21\\22\\23\\24\\25\\26\\27\\28\\29\\30\\31')
        local key = ('\\0\\1\\2\\3\\4\\5\\6\\7\\8\\9\\10\\11\\12\\13\\14\\15') ";
    let lua = vm();
    for (code, expected) in [
        ("return hex(aes:new('AKeyForAES'):encrypt('Secret message!'))", "6d87d6b11c6bf0dcb76d1aa611520b3c"),
        ("local a = aes:new('AKeyForAES-256-CBC', 'MySalt!!', aes.cipher(256, 'cbc'), aes.hash.sha512, 5)
            local e = a:encrypt('Really secret message!') return hex(e), a:decrypt(e)",
            "02997c9c6eb26af1a335ed8c11d53df3bf127086ecbba02fb73391bcf385bd2c|Really secret message!|nil"),
        ("local a = aes:new(key, nil, aes.cipher(128, 'ecb'), {iv = iv}) local e = a:encrypt('hello world, hello world') return hex(e), a:decrypt(e)",
            "471a7ac0ae69f7191ee2a547cb7745378a3298ccdc8a75de47a103e81edc63f8|hello world, hello world|nil"),
        ("local a = aes:new(key, nil, aes.cipher(128, 'cbc'), {iv = iv}) local e = a:encrypt('hello world, hello world') return hex(e), a:decrypt(e)",
            "f6ac8827c0554ad41fc7facd1ac58bc6bef1c9c3616a17621d4e2fbc388cb681|hello world, hello world|nil"),
        ("local a = aes:new(key, nil, aes.cipher(128, 'ctr'), {iv = iv}) local e = a:encrypt('hello world, hello world') return hex(e), a:decrypt(e)",
            "6f9b83188ef57401e2628a3daefcf7fffeade573b77eee66|hello world, hello world|nil"),
        ("local a = aes:new(key .. iv:sub(1, 8), nil, aes.cipher(192, 'cbc'), {iv = iv}) return hex(a:encrypt('hello world, hello world'))",
            "f53cabd8e54b2cb5172a9360251ef952ecd6931fde809cd78bfa069f3384c5ab"),
        ("local a = aes:new(key, nil, aes.cipher(128, 'gcm'), {iv = '0123456789ab'}) local e = a:encrypt('hello', 'aad')
            return hex(e[1] .. e[2]), a:decrypt(e[1], e[2], 'aad'), a:decrypt(e[1], e[2], 'x')",
            "d3d3d9db4fea73c127263f7c9b8bc0e96e3e4cc94a|hello|nil|bad decrypt"),
        ("return aes:new(key, 'short')", "nil|salt must be 8 characters or nil"),
        ("return aes:new('short', nil, nil, {iv = iv})", "nil|bad key length"),
        ("return aes.cipher(128, 'cfb1'), aes:new(key, nil, nil, {iv = iv}):decrypt('x')", "nil|nil|wrong final block length"),
        ("local a = aes:new(key, nil, nil, {iv = iv}) return a:decrypt(('x'):rep(16))", "nil|bad decrypt"),
        ("local a = aes:new(key, nil, nil, {iv = iv}, nil, nil, false) return #a:encrypt(('x'):rep(16)), a:encrypt('x')", "16|nil|data not multiple of block length"),
    ] {
        assert_eq!(eval(&lua, &format!("{key}{code}")), expected, "{code}");
    }
}

#[test]
fn keys_of_openssl_sign_and_verify() {
    let lua = vm();
    let globals = lua.globals();
    for (name, pem) in [
        ("rsa", include_str!("keys/rsa.pem")),
        ("rsa1", include_str!("keys/rsa1.pem")),
        ("rsa_public", include_str!("keys/rsa_public.pem")),
        ("rsa_certificate", include_str!("keys/rsa_certificate.pem")),
        ("ec", include_str!("keys/ec256.pem")),
        ("ec_public", include_str!("keys/ec256_public.pem")),
        ("ec384", include_str!("keys/ec384.pem")),
        ("ec384_public", include_str!("keys/ec384_public.pem")),
        ("ed25519", include_str!("keys/ed25519.pem")),
        ("ed25519_public", include_str!("keys/ed25519_public.pem")),
        ("rsa_signature", RSA_SIGNATURE),
        ("ec_signature", EC_SIGNATURE),
    ] {
        globals.set(name, pem).unwrap();
    }
    for (code, expected) in [
        ("pkey.new(rsa):sign('hello', 'sha256') == ngx.decode_base64(rsa_signature)", "true"),
        ("pkey.new(rsa1):sign('hello', 'SHA-256') == ngx.decode_base64(rsa_signature)", "true"),
        ("pkey.new(rsa_public):verify(ngx.decode_base64(rsa_signature), 'hello', 'sha256')", "true"),
        ("pkey.new(rsa_certificate):verify(ngx.decode_base64(rsa_signature), 'hello')", "true"),
        ("pkey.new(rsa_public):verify(ngx.decode_base64(rsa_signature), 'hullo')", "false"),
        ("pkey.new(rsa_public):verify(pkey.new(rsa):sign('a', 'sha512', 6), 'a', 'sha512', 6)", "true"),
        ("pkey.new(ec_public):verify(ngx.decode_base64(ec_signature), 'hello', 'sha256')", "true"),
        ("pkey.new(ec_public):verify(pkey.new(ec):sign('a'), 'a')", "true"),
        ("#pkey.new(ec):sign('a', 'sha256', nil, {ecdsa_use_raw = true})", "64"),
        ("pkey.new(ec384_public):verify(pkey.new(ec384):sign('a', 'sha384'), 'a', 'sha384')", "true"),
        ("pkey.new(ed25519_public):verify(pkey.new(ed25519):sign('a'), 'a')", "true"),
        ("pkey.new('nothing')", "nil|pkey.new: failed to load the key"),
        (
            "pkey.new(ec_public):verify('x', 'a', 'sha512')",
            "nil|pkey:verify: the digest is not supported with this key",
        ),
        ("pkey.new(rsa_public):sign('a')", "nil|not a private key in PEM"),
    ] {
        let code = format!("local pkey = require('resty.openssl.pkey') return {code}");
        assert_eq!(eval(&lua, &code), expected, "{code}");
    }
}

#[test]
fn random_values_have_their_forms() {
    check(&[
        (
            "#require('resty.random').bytes(16, true), require('resty.random').bytes(2^21), #require('resty.openssl.rand').bytes(3)",
            "16|nil|3",
        ),
        (
            "require('resty.random').bytes(16) ~= require('resty.random').bytes(16), #require('resty.random').token(9)",
            "true|9",
        ),
        ("local n = require('resty.random').number(3, 5) return n >= 3 and n <= 5 and n % 1 == 0", "true"),
        (
            "local u = require('resty.jit-uuid') u.seed() return u.is_valid(u()), u():sub(15, 15), u.generate_v4() ~= u.generate_v4()",
            "true|4|true",
        ),
        (
            "require('resty.jit-uuid').generate_v3('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'example.com')",
            "9073926b-929f-31c2-abc9-fad77ae3e8eb",
        ),
        (
            "require('resty.jit-uuid').generate_v5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'example.com')",
            "cfbff0d1-9375-5685-968c-48ce8b15ae17",
        ),
        (
            "require('jit-uuid').is_valid('x'), require('jit-uuid').generate_v5('x', 'y')",
            "false|nil|namespace must be a valid UUID",
        ),
        (
            "local u = require('apisix.core.utils') local a, b = u.generate_uuid_v7(), u.generate_uuid_v7() return #a, a:sub(15, 15), a < b",
            "36|7|true",
        ),
    ]);
}
