//! Caches, networks, expressions, URLs, and the subset of Penlight.

use super::check;

#[test]
fn the_lru_cache_evicts_and_expires() {
    check(&[
        (
            "local c = require('resty.lrucache').new(2) c:set('a', 1) c:set('b', 2) c:get('a') c:set('c', 3) return c:get('a'), c:get('b'), c:get('c')",
            "1|nil|3|nil|0",
        ),
        ("local c = require('resty.lrucache').new(2) c:set('a', 1, -1, 7) return c:get('a')", "nil|1|7"),
        ("local c = require('resty.lrucache').new(2) c:set('a', 1, 100, 7) return c:get('a')", "1|nil|7"),
        (
            "local c = require('resty.lrucache').new(3) c:set('a', 1) c:set('b', 2) c:delete('a') return c:count(), c:capacity(), c:get_keys()[1], c:get('a')",
            "1|3|b|nil",
        ),
        (
            "local c = require('resty.lrucache.pureffi').new(3) c:set('a', 1) c:flush_all() return c:count(), c:get('a')",
            "0|nil",
        ),
        ("require('resty.lrucache').new(0)", "nil|size too small"),
        (
            "local c = require('resty.lrucache').new(10) for i = 1, 1000 do c:set(i % 37, i) end return c:count(), #c:get_keys(), #c:get_keys(3)",
            "10|10|3",
        ),
        (
            "local p = require('tablepool') local t = p.fetch('x', 1, 1) t.a = 1 p.release('x', t) local u = p.fetch('x', 1, 1) return u == t, u.a",
            "true|nil",
        ),
    ]);
}

#[test]
fn addresses_match_networks() {
    let list =
        "require('resty.ipmatcher').new({'127.0.0.1', '192.168.0.0/16', '::1', 'fe80::/32', '10.0.0.0/9'})";
    for (address, expected) in [
        ("127.0.0.1", "true"),
        ("127.0.0.2", "false"),
        ("192.168.1.100", "true"),
        ("::1", "true"),
        ("[::1]", "true"),
        ("fe80:0:1::", "true"),
        ("fe80:1::", "false"),
        ("10.127.255.255", "true"),
        ("10.128.0.0", "false"),
        ("x", "false|invalid ip address, not ipv4 and ipv6"),
    ] {
        check(&[(&format!("{list}:match('{address}')"), expected)]);
    }
    check(&[
        ("require('resty.ipmatcher').new({'x'})", "nil|invalid ip address: x"),
        ("require('resty.ipmatcher').new({'1.1.1.1/33'})", "nil|invalid ip address: 1.1.1.1/33"),
        ("require('resty.ipmatcher').new({'0.0.0.0/0'}):match('1.2.3.4')", "true"),
        (
            "require('resty.ipmatcher').new({'1.2.3.4'}):match_bin('\\1\\2\\3\\4'), require('resty.ipmatcher').new({}):match_bin('x')",
            "true|false|invalid ip address, not ipv4 and ipv6",
        ),
        (
            "require('resty.ipmatcher').new_with_value({['10.0.0.0/8'] = 'a', ['10.1.0.0/16'] = 'b'}):match('10.1.2.3')",
            "b",
        ),
        (
            "require('resty.ipmatcher').parse_ipv4('192.168.1.1'), require('resty.ipmatcher').parse_ipv4('x')",
            "3232235777|false",
        ),
        ("unpack(require('resty.ipmatcher').parse_ipv6('[ff::1]'))", "16711680|0|0|1"),
        (
            "require('apisix.core.ip').validate_cidr_or_ip('127.0.0.1/33'), require('apisix.core.ip').validate_cidr_or_ip('127.0.0.1/8')",
            "false|true",
        ),
        (
            "type(require('apisix.core.ip').validate_cidr_or_ip('::1/64')), require('apisix.core.ip').validate_cidr_or_ip('a/b')",
            "table|false",
        ),
        (
            "require('apisix.core.ip').create_ip_matcher({'1.1.1.1'}):match('1.1.1.1'), require('apisix.core.ip').create_ip_matcher({'x'})",
            "true|nil",
        ),
    ]);
}

#[test]
fn expressions_are_evaluated() {
    let vars = "{name = 'json', weight = '12', list = {'a', 'b'}, addr = '10.1.2.3'}";
    for (rule, expected) in [
        ("{{'name', '==', 'json'}, {'weight', '>', 10}, {'weight', '!', '>', 15}}", "true"),
        ("{'!AND', {'name', '==', 'json'}, {'OR', {'weight', '>', 10}, {'height', '!', '>', 15}}}", "false"),
        ("{'OR', {'name', '==', 'x'}, {'weight', '<=', 12}}", "true"),
        ("{'!OR', {'name', '==', 'x'}, {'weight', '<', 12}}", "true"),
        ("{{'name', '~=', 'x'}, {'missing', '~=', 'x'}}", "true"),
        ("{{'name', '~~', '^[a-j]'}}", "true"),
        ("{{'name', '~*', '^JS'}}", "true"),
        ("{{'name', 'in', {'xml', 'json'}}}", "true"),
        ("{{'list', 'has', 'b'}}", "true"),
        ("{{'addr', 'ipmatch', {'10.0.0.0/8'}}}", "true"),
        ("{{'missing', '>', 1}}", "false"),
        ("{}", "true"),
    ] {
        check(&[(&format!("require('resty.expr.v1').new({rule}):eval({vars})"), expected)]);
    }
    check(&[
        ("require('resty.expr.v1').new({'a', '==', 1})", "nil|rule should be wrapped inside brackets"),
        ("require('resty.expr.v1').new({{'a', 'is', 1}})", "nil|invalid operator 'is'"),
        ("require('resty.expr.v1').new({{'a', '?', '==', 1}})", "nil|bad operator, expect '!'"),
        ("require('resty.expr.v1').new({{'a', '=='}})", "nil|invalid expression"),
        ("(require('resty.expr.v1').new({{'a', '~~', '('}}))", "nil"),
        (
            "local r = {'a', '==', 1} for i = 1, 50 do r = {r} end return require('resty.expr.v1').new(r)",
            "nil|the expression nests too deeply",
        ),
    ]);
}

#[test]
fn urls_are_parsed_and_built() {
    check(&[
        (
            "local u = require('socket.url').parse('http://user:pw@a.com:81/p;x?q=1#f') return u.scheme, u.user, u.password, u.host, u.port, u.path, u.params, u.query, u.fragment",
            "http|user|pw|a.com|81|/p|x|q=1|f",
        ),
        (
            "local u = require('socket.url').parse('https://[::1]:8443/') return u.host, u.port, u.path",
            "::1|8443|/",
        ),
        (
            "local m = require('socket.url') return m.build(m.parse('http://u:p@a.com:81/p;x?q=1#f')), m.parse('')",
            "http://u:p@a.com:81/p;x?q=1#f|nil|invalid url",
        ),
        (
            "local m = require('socket.url') return m.absolute('http://a/b/c/d;p?q', '../g'), m.absolute('http://a/b/c/d;p?q', '//g'), m.absolute('http://a/b/c/d;p?q', './')",
            "http://a/b/g|http://g|http://a/b/c/",
        ),
        (
            "local m = require('socket.url') return m.absolute('http://a/b/c/d;p?q', '../../../g'), m.absolute('http://a/b/c/d;p?q', '?y')",
            "http://a/g|http://a/b/c/d;p?y",
        ),
        ("require('socket.url').escape('/a b'), require('socket.url').unescape('%2fa%20b')", "%2fa%20b|/a b"),
        (
            "local m = require('socket.url') local p = m.parse_path('/a%20b/c/') return #p, p[1], p.is_absolute, p.is_directory, m.build_path(p)",
            "2|a b|1|1|/a%20b/c/",
        ),
        (
            "local u = require('net.url').parse('http://A.com:80/p?a=1&b[]=2&b[]=3#f') return u.scheme, u.host, u.port, u.path, u.query.a, u.query.b[2], u.fragment",
            "http|a.com|80|/p|1|3|f",
        ),
        (
            "tostring(require('net.url').parse('http://a.com/p?b=2&a=1')), tostring(require('net.url').parse('http://a.com/b/c'):resolve('../d'))",
            "http://a.com/p?a=1&b=2|http://a.com/d",
        ),
    ]);
}

#[test]
fn cookies_are_read_and_set() {
    let prelude = "ngx.var = {http_cookie = 'a=1; b=\"x y\";c = 3'} ngx.header = {} local c = require('resty.cookie'):new()";
    for (code, expected) in [
        ("c:get('a'), c:get('b'), c:get('c'), c:get('d')", "1|x y|3|nil"),
        (
            "c:set({key = 'k', value = 'v', path = '/', httponly = true, samesite = 'Lax'}), ngx.header['Set-Cookie'][1]",
            "true|k=v; Path=/; HttpOnly; SameSite=Lax",
        ),
        ("c:set({key = 'k', value = 'a\\r\\nX: 1'})", "nil|a cookie can't have control characters"),
        ("c:set({key = 'k'})", "nil|missing cookie field \"key\" or \"value\""),
    ] {
        check(&[(&format!("{prelude} return {code}"), expected)]);
    }
}

#[test]
fn penlight_and_inspect_do_as_documented() {
    check(&[
        ("require('inspect')({1, 2, 3})", "{ 1, 2, 3 }"),
        ("require('inspect')({a = 1, ['b c'] = 'd'})", "{\n  a = 1,\n  [\"b c\"] = \"d\"\n}"),
        (
            "require('inspect')({'a', {b = {c = 1}}}, {depth = 2, newline = '', indent = ''})",
            "{ \"a\", {b = {...}} }",
        ),
        (
            "local t = {} t.t = t return require('inspect')(t, {newline = '', indent = ''})",
            "<1>{t = <table 1>}",
        ),
        ("require('inspect')('a\"b\\n'), require('inspect')(1/0)", "'a\"b\\n'|math.huge"),
        (
            "local s = require('pl.stringx') return s.strip('  a b '), s.startswith('abc', 'ab'), s.endswith('abc', {'x', 'c'}), s.count('aXbXc', 'X')",
            "a b|true|true|2",
        ),
        (
            "local s = require('pl.stringx') return table.concat(s.split(' a  b '), ','), table.concat(s.split('a,b,c', ',', 1), ' '), s.replace('a.b.c', '.', '%', 1)",
            "a,b|a b,c|a%b.c",
        ),
        (
            "local s = require('pl.stringx') return s.partition('a=b=c', '='), s.rpartition('a=b=c', '=')",
            "a|a=b|=|c",
        ),
        (
            "local t = require('pl.tablex') return t.size({1, a = 2}), t.find({'x', 'y'}, 'y'), t.deepcompare({a = {1}}, {a = {1}}), #t.keys({a = 1, b = 2}), t.reduce(function(a, b) return a + b end, {1, 2, 3})",
            "2|2|true|2|6",
        ),
        (
            "local t = require('pl.types') return t.is_empty({}), t.is_empty(' ', true), t.to_bool('yes'), t.is_callable(print), t.is_integer(1.5)",
            "true|true|true|true|false",
        ),
    ]);
}
