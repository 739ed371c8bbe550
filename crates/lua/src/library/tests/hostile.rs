//! What a script or its input may do to hurt the worker: every case ends soon, in bounded memory, with an error that the
//! script can catch.

use super::{check, eval, vm};

#[test]
fn nesting_is_bounded() {
    check(&[
        ("require('cjson.safe').decode(('['):rep(1000) .. (']'):rep(1000)) ~= nil", "true"),
        (
            "require('cjson.safe').decode(('['):rep(1001) .. (']'):rep(1001))",
            "nil|Found too many nested data structures (1001) at character 1001",
        ),
        (
            "local c = require('cjson.safe').new() c.decode_max_depth(2^31 - 1) return (c.decode(('['):rep(10^6)))",
            "nil",
        ),
        ("(require('cjson.safe').decode(('{\"a\":'):rep(10^5)))", "nil"),
        (
            "local t = {} t[1] = t return require('cjson.safe').encode(t)",
            "nil|Cannot serialise, excessive nesting (1001)",
        ),
        (
            "local c = require('cjson.safe').new() c.encode_max_depth(2^31 - 1) local t = {} t[1] = t return (c.encode(t))",
            "nil",
        ),
        (
            "local t = {} for i = 1, 10^5 do t = {t} end return pcall(require('inspect'), t) == false, pcall(require('apisix.core.table').deepcopy, t) == false",
            "true|true",
        ),
    ]);
}

#[test]
fn expressions_that_explode_end_with_an_error() {
    check(&[
        (
            "ngx.re.match(('a'):rep(64) .. '!', '^(a+)+$')",
            "nil|pcre_exec() failed: -47 (PCRE2: error matching: match limit exceeded)",
        ),
        ("select(3, ngx.re.gsub(('a'):rep(64) .. '!', '^(a+)+$', '')):match('^pcre_exec')", "pcre_exec"),
        ("ngx.re.match('a', '(*LIMIT_MATCH=4000000000)^(a+)+$')[0]", "a"),
        (
            "select(2, ngx.re.match(('a'):rep(64) .. '!', '(*LIMIT_MATCH=4000000000)^(a+)+$')):match('^pcre_exec')",
            "pcre_exec",
        ),
        ("(ngx.re.match('a', ('a?'):rep(40000)))", "nil"),
        ("(ngx.re.match('a', ('('):rep(10000) .. (')'):rep(10000)))", "nil"),
    ]);
}

#[test]
fn results_of_replacements_are_bounded() {
    check(&[
        ("select(3, ngx.re.gsub(('a'):rep(10^5), 'a', ('$0'):rep(10^5))):match('^the result')", "the result"),
        ("#ngx.re.gsub(('a'):rep(10^6), 'a', 'bb')", "2000000"),
        ("require('resty.random').bytes(2^40)", "nil"),
        ("#require('resty.aes'):new('k', nil, nil, nil, 2^40).key", "16"),
    ]);
}

#[test]
fn bytes_are_not_interpreted() {
    check(&[
        ("ngx.re.match('a\\0b', '\\0')[0] == '\\0', ngx.md5('\\0') ~= ngx.md5('')", "true|true"),
        (
            "require('cjson').encode('\\255') == '\"\\255\"', require('cjson').decode('\"\\255\"') == '\\255'",
            "true|true",
        ),
        ("require('cjson.safe').decode('\\0\\0')", "nil|JSON parser does not support UTF-16 or UTF-32"),
        (
            "require('cjson.safe').decode('[1]\\0')",
            "nil|Expected the end but found invalid token at character 4",
        ),
        (
            "ngx.parse_http_time('\\255'), ngx.unescape_uri('%00') == '\\0', ngx.decode_base64('\\0')",
            "nil|true|nil",
        ),
        (
            "require('resty.ipmatcher').parse_ipv4('1.2.3.4\\0'), require('resty.jwt'):load_jwt('\\255.\\255.\\255').valid",
            "false|false",
        ),
    ]);
}

#[test]
fn arguments_of_the_wrong_kind_do_no_harm() {
    check(&[
        ("ngx.re.match('ab', 'b', '', {pos = 0/0})[0], ngx.re.match('ab', 'b', '', {pos = 1.5})[0]", "b|b"),
        ("ngx.re.match('ab', 'b', '', {pos = 1/0}), ngx.re.match('ab', 'b', '', {pos = -1})[0]", "nil|b"),
        ("ngx.re.find('ab', 'b', '', nil, -1)", "nil|nil|nth out of bound"),
        ("ngx.decode_args('a=1', 1e300).a, pcall(ngx.decode_args, 'a', 0/0) == false", "1|true"),
        (
            "require('resty.random').bytes(-1), require('resty.random').bytes('x'), require('resty.random').bytes(0/0)",
            "nil|nil|nil",
        ),
        (
            "ngx.http_time(1/0), pcall(ngx.http_time, 'x') == false, pcall(ngx.encode_args) == false",
            "nil|true|true",
        ),
        ("(pcall(require('resty.aes').new, nil, 'k', nil, {method = 'cbc', size = 1e9}))", "true"),
    ]);
}

#[test]
fn pointers_are_out_of_reach() {
    check(&[("pcall(require, 'string.buffer') == false, package.loaded['string.buffer']", "true|nil")]);
}

/// A limit of the VM's memory holds for what the libraries make in it.
#[test]
fn memory_is_counted() {
    let lua = vm();
    lua.set_memory_limit(16 << 20).expect("the allocator is mlua's");
    let bombs = [
        "local t = {} for i = 1, 1e9 do t[i] = require('resty.md5'):new() end",
        "local t = {} for i = 1, 1e9 do t[i] = require('resty.hmac'):new('k', 'sha512') end",
        "require('cjson').encode(table.new(1, 0)) local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end return #require('cjson').encode(t)",
        "return require('cjson').decode('[' .. ('{},'):rep(1e6) .. '1]')",
        "local s = ('x'):rep(1e6) return ngx.re.gsub(s, 'x', function() return s end)",
        "local c = require('resty.lrucache').new(1e9) for i = 1, 1e9 do c:set(i, i) end",
    ];
    for bomb in bombs {
        let ended = lua.load(bomb).exec();
        assert!(ended.is_err(), "{bomb}");
        lua.gc_collect().expect("it collects");
        assert_eq!(eval(&lua, "1 + 1"), "2", "{bomb}");
    }
}
