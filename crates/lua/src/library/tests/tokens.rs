//! resty.jwt and resty.jwt-validators.

use super::{eval, vm};

/// The example of lua-resty-jwt's documentation.
const EXAMPLE: &str =
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJmb28iOiJiYXIifQ.VAoRL1IU0nOguxURF2ZcKR0SGKE1gCbqwyh8u2MLAyY";

fn check(rows: &[(&str, &str)]) {
    let lua = vm();
    let globals = lua.globals();
    globals.set("example", EXAMPLE).unwrap();
    globals.set("rsa", include_str!("keys/rsa.pem")).unwrap();
    globals.set("rsa_public", include_str!("keys/rsa_public.pem")).unwrap();
    globals.set("rsa_certificate", include_str!("keys/rsa_certificate.pem")).unwrap();
    globals.set("ec", include_str!("keys/ec256.pem")).unwrap();
    globals.set("ec_public", include_str!("keys/ec256_public.pem")).unwrap();
    globals.set("ed25519", include_str!("keys/ed25519.pem")).unwrap();
    globals.set("ed25519_public", include_str!("keys/ed25519_public.pem")).unwrap();
    let prelude = "local jwt, v = require('resty.jwt'), require('resty.jwt-validators')
        local function sign(key, payload, alg) return jwt:sign(key, {header = {typ = 'JWT', alg = alg or 'HS256', kid = 'k'}, payload = payload}) end
        local function shown(t) return t.verified, t.reason end ";
    for (code, expected) in rows {
        assert_eq!(eval(&lua, &format!("{prelude} return {code}")), *expected, "{code}");
    }
}

#[test]
fn tokens_are_loaded_and_verified() {
    check(&[
        ("shown(jwt:verify('lua-resty-jwt', example))", "true|everything is awesome~ :p"),
        (
            "shown(jwt:verify('other', example))",
            "false|signature mismatch: VAoRL1IU0nOguxURF2ZcKR0SGKE1gCbqwyh8u2MLAyY",
        ),
        (
            "jwt:load_jwt(example).payload.foo, jwt:load_jwt(example).header.alg, jwt:load_jwt(example).valid",
            "bar|HS256|true",
        ),
        (
            "jwt:load_jwt('a.b').reason, jwt:load_jwt('a.b').valid, jwt:load_jwt(nil).reason",
            "invalid jwt string|false|invalid jwt string",
        ),
        ("jwt:load_jwt('a.b.c').reason", "invalid header: a"),
        ("shown(jwt:verify_jwt_obj('x', jwt:load_jwt('a.b.c')))", "false|invalid header: a"),
        (
            "shown(jwt:verify(function(kid) return kid == 'k' and 'secret' end, sign('secret', {})))",
            "true|everything is awesome~ :p",
        ),
        (
            "shown(jwt:verify(function() return nil end, sign('secret', {})))",
            "false|function returned nil for kid: k",
        ),
    ]);
}

#[test]
fn every_algorithm_signs_and_verifies() {
    let ok = "true|everything is awesome~ :p";
    check(&[
        ("shown(jwt:verify('s', sign('s', {a = 1}, 'HS384')))", ok),
        ("shown(jwt:verify('s', sign('s', {a = 1}, 'HS512')))", ok),
        ("shown(jwt:verify(rsa_public, sign(rsa, {a = 1}, 'RS256')))", ok),
        ("shown(jwt:verify(rsa_certificate, sign(rsa, {a = 1}, 'RS512')))", ok),
        ("shown(jwt:verify(rsa_public, sign(rsa, {a = 1}, 'PS384')))", ok),
        ("shown(jwt:verify(ec_public, sign(ec, {a = 1}, 'ES256')))", ok),
        ("shown(jwt:verify(ed25519_public, sign(ed25519, {a = 1}, 'EdDSA')))", ok),
        ("jwt:verify(ec_public, sign(rsa, {a = 1}, 'RS256')).verified", "false"),
        ("(select(2, pcall(sign, 's', {}, 'none'))).reason", "unsupported alg: none"),
        ("(select(2, pcall(sign, 's', {}, 'RS256'))).reason", "not a private key in PEM"),
    ]);
}

#[test]
fn forged_tokens_are_refused() {
    check(&[
        // {"alg":"none"} and {"typ":"JWT","alg":"NONE"}
        ("shown(jwt:verify('s', 'eyJhbGciOiJub25lIn0.e30.'))", "false|unsupported alg: none"),
        ("jwt:verify(nil, 'eyJhbGciOiJub25lIn0.e30.').verified", "false"),
        // A token signed with the public key as if it were a secret.
        (
            "shown(jwt:verify(rsa_public, sign(rsa_public, {}, 'HS256')))",
            "false|a key in PEM is not a shared secret",
        ),
        (
            "jwt:verify('lua-resty-jwt', (example:gsub('eyJmb28iOiJiYXIifQ', 'eyJmb28iOiJiYXoifQ'))).verified",
            "false",
        ),
        (
            "shown(jwt:verify('s', sign('s', {exp = 1})))",
            "false|'exp' claim expired at Thu, 01 Jan 1970 00:00:01 GMT",
        ),
        (
            "jwt:verify('s', sign('s', {nbf = 4e9})).verified, jwt:verify('s', sign('s', {exp = 4e9})).verified",
            "false|true",
        ),
        (
            "jwt:verify('s', sign('s', {exp = 'soon'})).reason",
            "'exp' is malformed.  Expected to be a positive numeric value.",
        ),
    ]);
}

#[test]
fn claims_are_validated() {
    check(&[
        (
            "shown(jwt:verify('lua-resty-jwt', example, {foo = v.equals('bar')}))",
            "true|everything is awesome~ :p",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {foo = v.equals('x')}))",
            "false|Claim 'foo' ('bar') returned failure",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {sub = v.required_equals('x')}))",
            "false|'sub' claim is required.",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {sub = v.opt_equals('x')}))",
            "true|everything is awesome~ :p",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {foo = v.matches('^b')}, {foo = v.equals_any_of({'a', 'b'})}))",
            "false|Claim 'foo' ('bar') returned failure",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {foo = function() error({reason = 'mine'}) end}))",
            "false|mine",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {foo = function() error('Error String') end}))",
            "false|Error String",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {foo = function() end}))",
            "true|everything is awesome~ :p",
        ),
        (
            "shown(jwt:verify('lua-resty-jwt', example, {__jwt = v.require_one_of({'nbf', 'exp'})}))",
            "false|Missing one of claims - [ nbf, exp ].",
        ),
        ("jwt:verify('lua-resty-jwt', example, {lifetime_grace_period = 10}).verified", "false"),
        ("jwt:verify('s', sign('s', {exp = ngx.time() - 5}), {lifetime_grace_period = 10}).verified", "true"),
        ("jwt:verify('s', sign('s', {iss = 'a'}), {valid_issuers = {'a', 'b'}}).verified", "true"),
        (
            "pcall(jwt.verify, jwt, 'lua-resty-jwt', example, {sub = true})",
            "false|Claim spec value must be a function - see jwt-validators.lua for helper functions",
        ),
        (
            "v.chain(v.greater_than(3), v.less_than(5))(4), v.opt_greater_than_or_equal(5)(4), v.opt_is_at()(nil)",
            "true|false|true",
        ),
    ]);
}
