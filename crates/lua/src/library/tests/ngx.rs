//! The functions of the global table `ngx`.

use proptest::prelude::*;

use super::{check, eval, vm};

#[test]
fn constants_have_openrestys_values() {
    check(&[
        ("ngx.OK, ngx.ERROR, ngx.AGAIN, ngx.DONE, ngx.DECLINED", "0|-1|-2|-4|-5"),
        ("ngx.HTTP_OK, ngx.HTTP_TOO_MANY_REQUESTS, ngx.HTTP_CLOSE, ngx.HTTP_POST", "200|429|444|8"),
        ("ngx.EMERG, ngx.ERR, ngx.WARN, ngx.DEBUG", "1|4|5|8"),
        ("type(ngx.null), ngx.config.subsystem", "userdata|http"),
    ]);
}

#[test]
fn base64_is_tolerant_of_padding_alone() {
    check(&[
        ("ngx.encode_base64('hello'), ngx.encode_base64('hello', true)", "aGVsbG8=|aGVsbG8"),
        ("ngx.encode_base64(nil), ngx.encode_base64(12)", "|MTI="),
        (
            "ngx.decode_base64('aGVsbG8='), ngx.decode_base64('aGVsbG8'), ngx.decode_base64('a*b')",
            "hello|hello|nil",
        ),
        ("pcall(ngx.decode_base64, 1) == false", "true"),
        (
            "require('ngx.base64').encode_base64url('\\255\\254?'), require('ngx.base64').decode_base64url('__4_') == '\\255\\254?'",
            "__4_|true",
        ),
        ("require('ngx.base64').decode_base64url('!')", "nil|invalid input"),
    ]);
}

#[test]
fn percent_encoding_has_nginx_sets() {
    check(&[
        ("ngx.escape_uri('a b&c=/%\\200~_-.')", "a%20b%26c%3D%2F%25%C8~_-."),
        ("ngx.escape_uri('/a b?c=d&e#', 0)", "/a%20b%3Fc=d&e%23"),
        ("ngx.escape_uri('https://www.google.com', 0)", "https://www.google.com"),
        (
            "ngx.unescape_uri('b%r56+7'), ngx.unescape_uri('%e4%b8%ad') == '\\228\\184\\173', ngx.unescape_uri('%')",
            "b%r56 7|true|%",
        ),
        ("require('apisix.core.utils').uri_safe_encode('/a b|{c}?d=\"e\"')", "/a%20b%7C%7Bc%7D%3Fd=%22e%22"),
        ("select(2, pcall(ngx.escape_uri, 'a', 9)):match('out of range')", "out of range"),
    ]);
}

#[test]
fn query_strings_are_read_and_written() {
    check(&[
        ("ngx.encode_args({foo = 3, ['b r'] = 'hello world'}):len()", "25"),
        (
            "ngx.encode_args({a = {1, 'b', true}}), ngx.encode_args({a = true}), ngx.encode_args({a = false})",
            "a=1&a=b&a|a|",
        ),
        ("pcall(ngx.encode_args, {a = print}) == false", "true"),
        (
            "local t = ngx.decode_args('a=1&b&c=&=d&a=2&e%20=%26') return t.a[1], t.a[2], t.b, t.c, t['e ']",
            "1|2|true||&",
        ),
        ("select(2, ngx.decode_args('a&b&c', 2)), select('#', ngx.decode_args('a&b', 2))", "truncated|2"),
        ("local s = ('a=1&'):rep(150) return #ngx.decode_args(s).a, #ngx.decode_args(s, 0).a", "100|150"),
    ]);
}

#[test]
fn digests_are_those_of_the_standards() {
    check(&[
        ("ngx.md5('hello'), #ngx.md5_bin('hello')", "5d41402abc4b2a76b9719d911017c592|16"),
        (
            "require('resty.string').to_hex(ngx.sha1_bin('hello, world'))",
            "b7e23ec29af22b0b4e41da31e868d57226121c84",
        ),
        (
            "ngx.encode_base64(ngx.hmac_sha1('thisisverysecretstuff', 'some string we want to sign'))",
            "R/pvxzHC4NLtj7S+kXFg/NePTmk=",
        ),
        ("ngx.crc32_short('hello'), ngx.crc32_long('hello')", "907060870|907060870"),
        ("ngx.quote_sql_str([[a'b\"c\\d]] .. '\\n\\0\\26')", "'a\\'b\\\"c\\\\d\\n\\0\\Z'"),
    ]);
}

#[test]
fn dates_have_their_formats() {
    check(&[
        (
            "ngx.http_time(1290079655), ngx.cookie_time(1290079655)",
            "Thu, 18 Nov 2010 11:27:35 GMT|Thu, 18-Nov-10 11:27:35 GMT",
        ),
        ("ngx.cookie_time(2200000000)", "Sun, 18-Sep-2039 23:06:40 GMT"),
        ("ngx.parse_http_time('Thu, 18 Nov 2010 11:27:35 GMT'), ngx.parse_http_time('x')", "1290079655|nil"),
        (
            "ngx.utctime():find('^%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d$'), #ngx.today(), #ngx.localtime()",
            "1|10|19",
        ),
        ("math.floor(ngx.time()) == ngx.time(), ngx.now() - ngx.time() < 2", "true|true"),
        ("ngx.http_time(-1), ngx.http_time(1e300), ngx.http_time(0/0)", "nil|nil|nil"),
    ]);
}

#[test]
fn tables_and_threads_have_openrestys_additions() {
    check(&[
        ("table.nkeys({1, 2, a = 3}), require('table.nkeys')({})", "3|0"),
        (
            "table.isarray({1, 2}), table.isarray({}), table.isarray({a = 1}), table.isarray({[3] = 1}), table.isarray({[0] = 1})",
            "true|true|false|true|false",
        ),
        ("table.isempty({}), table.isempty({1}), #table.clone({1, 2}), #table.new(4, 0)", "true|false|2|0"),
        ("local t = {1, a = 2} table.clear(t) return next(t)", "nil"),
        ("local e = require('thread.exdata') e('a') coroutine.wrap(function() e('b') end)() return e()", "a"),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_survive_every_encoding(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let lua = vm();
        lua.globals().set("text", lua.create_string(&bytes).unwrap()).unwrap();
        let code = "local b = require('ngx.base64')
            return ngx.decode_base64(ngx.encode_base64(text)) == text,
                b.decode_base64url(b.encode_base64url(text)) == text,
                ngx.unescape_uri(ngx.escape_uri(text)) == text,
                text == '' or ngx.decode_args(ngx.encode_args({[text] = text}))[text] == text";
        prop_assert_eq!(eval(&lua, code), "true|true|true|true");
    }
}
