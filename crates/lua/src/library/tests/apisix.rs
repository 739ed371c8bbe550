//! The pure parts of `apisix.core`.

use super::check;

#[test]
fn core_json_encodes_what_cjson_does_not() {
    check(&[
        (
            "local j = require('apisix.core.json') return j.encode(j.decode('{\"a\":[]}')), j.decode('{')",
            "{\"a\":[]}|nil|Expected object key string but found T_END at character 2",
        ),
        (
            "local j = require('apisix.core.json') local d = j.decode('{\"a\":null,\"b\":{\"c\":null}}', {null_as_nil = true}) return d.a, next(d.b)",
            "nil|nil",
        ),
        (
            "tostring(require('apisix.core.json').delay_encode({1})), require('apisix.core.json').encode({print}) == nil",
            "[1]|true",
        ),
        (
            "require('apisix.core.json').encode({print}, true):match('function') , require('apisix.core.json').encode(print, true):match('function')",
            "function|function",
        ),
        (
            "local t = {} t.t = t local j = require('apisix.core.json') return j.encode(t, true):match('table:') ",
            "table:",
        ),
        (
            "require('apisix.core.json').stably_encode({b = 1, a = {2, 3}, c = {}})",
            "{\"a\":[2,3],\"b\":1,\"c\":{}}",
        ),
        ("local t = {} t.t = t return require('apisix.core.json').stably_encode(t)", "nil|excessive depth"),
    ]);
}

#[test]
fn core_string_takes_needles_literally() {
    check(&[
        (
            "require('apisix.core.string').find('a.b', '.'), require('apisix.core.string').find('xaxa', 'a', 3)",
            "2|4|4",
        ),
        (
            "local s = require('apisix.core.string') return s.has_prefix('abc', 'ab'), s.has_prefix('a', 'ab'), s.has_suffix('abc', 'bc'), s.has_suffix('c', 'bc'), s.has_suffix('c', '')",
            "true|false|true|false|true",
        ),
        (
            "select(2, pcall(require('apisix.core.string').has_prefix, nil, 'a')):match('unexpected type.*')",
            "unexpected type: s:nil, prefix:string",
        ),
        (
            "require('apisix.core.string').rfind_char('a:b:c', ':'), require('apisix.core.string').rfind_char('a:b:c', ':', 3), require('apisix.core.string').rfind_char('a', ':')",
            "4|2|nil",
        ),
        ("require('apisix.core.string').compress_script('  a,  b\\n   c')", "a,b\nc"),
        (
            "require('apisix.core.string').upper('a'), require('apisix.core.string').encode_args({a = 1}), require('apisix.core.string').decode_args('b=2').b",
            "A|a=1|2",
        ),
    ]);
}

#[test]
fn core_table_merges_copies_and_patches() {
    check(&[
        (
            "local t = require('apisix.core.table') local a = {1} return t.insert_tail(a, 2, 3), #a, t.array_find(a, 3), t.array_find('x', 1)",
            "3|3|3|nil",
        ),
        (
            "local t = require('apisix.core.table') return t.try_read_attr({a = {b = 1}}, 'a', 'b'), t.try_read_attr({a = 1}, 'a', 'b'), t.try_read_attr(nil, 'a')",
            "1|nil|nil",
        ),
        ("local t = require('apisix.core.table') local c = t.deepcopy({a = {b = {1}}}) return c.a.b[1]", "1"),
        (
            "local t = require('apisix.core.table') local a = {} a.a = a local c = t.deepcopy(a) return c.a == c, c ~= a",
            "true|true",
        ),
        (
            "local t = require('apisix.core.table') local a = {x = {y = {}}, z = {}} local c = t.deepcopy(a, {shallows = {'self.x.y'}}) return c.x == a.x, c.x.y == a.x.y, c.z == a.z",
            "false|true|false",
        ),
        (
            "local t = require('apisix.core.table') local a = {x = {y = {}}, xy = {}} local c = t.deepcopy(a, {shallow_prefix = 'self.x'}) return c.x == a.x, c.x.y == a.x.y",
            "false|true",
        ),
        (
            "local t = require('apisix.core.table') local m = t.merge({a = {b = 1, c = 2}, d = {1, 2}}, {a = {b = 3}, d = {9}, e = ngx.null}) return m.a.b, m.a.c, #m.d, m.e",
            "3|2|1|nil",
        ),
        (
            "local t = require('apisix.core.table') local _, _, v = t.patch({a = {b = 1}}, 'a/b', 2) return v.a.b",
            "2",
        ),
        ("require('apisix.core.table').patch({a = 1}, 'a/b/c', 2)", "400|invalid sub-path: /a"),
        (
            "local t = require('apisix.core.table') return t.set_eq({a = 1}, {a = 2}), t.deep_eq({a = {1}}, {a = {1}}), t.deep_eq({a = 1}, {a = 2}), t.nkeys({1, a = 1}), t.pick({a = 1, b = 2}, {a = true}).b",
            "true|true|false|2|nil",
        ),
        (
            "require('apisix.core.table').concat({1, 2}, ','), require('apisix.core.table').remove({5})",
            "1,2|5",
        ),
    ]);
}

#[test]
fn core_utils_parse_and_resolve() {
    check(&[
        ("require('apisix.core.utils').parse_addr('127.0.0.1:80')", "127.0.0.1|80"),
        ("require('apisix.core.utils').parse_addr('[::1]:80')", "[::1]|80"),
        ("require('apisix.core.utils').parse_addr('[::1]')", "[::1]|nil"),
        ("require('apisix.core.utils').parse_addr('2001:db8::68')", "2001:db8::68|nil"),
        ("require('apisix.core.utils').parse_addr('::ffff:192.0.2.1')", "::ffff:192.0.2.1|nil"),
        ("require('apisix.core.utils').parse_addr('localhost:a')", "localhost|nil"),
        ("require('apisix.core.utils').parse_addr('test.com:8080')", "test.com|8080"),
        ("require('apisix.core.utils').parse_addr('localhost')", "localhost|nil"),
        ("table.concat(require('apisix.core.utils').split_uri('/a/b'), '|')", "|a|b"),
        (
            "local u = require('apisix.core.utils') return u.validate_header_field('X-A'), u.validate_header_field('a:'), u.validate_header_field('a b'), u.validate_header_value('a b'), u.validate_header_value('a\\n'), u.validate_header_value(1)",
            "true|false|false|true|false|true",
        ),
        (
            "require('apisix.core.utils').resolve_var('$a-${b}-${ c ?? d }-\\\\$e', {a = 1, b = 'x'})",
            "1-x-d-\\$e|nil|3",
        ),
        (
            "require('apisix.core.utils').resolve_var('$none', {}), require('apisix.core.utils').resolve_var('plain', {}), require('apisix.core.utils').resolve_var(nil, {})",
            "|plain|nil|nil|0",
        ),
        ("require('apisix.core.utils').resolve_var('$a', {a = 'x y'}, ngx.escape_uri)", "x%20y|nil|1"),
        ("require('apisix.core.utils').resolve_var_with_captures('/$1/${2}/$3', {'a', 'b'})", "/a/b/|nil"),
        (
            "type(require('apisix.core.utils').get_seed_from_urandom()), #require('apisix.core.utils').gethostname() > 0",
            "number|true",
        ),
        (
            "require('apisix.core.math').gcd(12, 18), require('apisix.constants').HTTP_ETCD_DIRECTORY['/routes']",
            "6|true",
        ),
    ]);
}

#[test]
fn core_lrucache_creates_once_for_a_version() {
    let prelude = "local l, n = require('apisix.core.lrucache'), 0 local function create(x) n = n + 1 return x and {x, n} end ";
    for (code, expected) in [
        (
            "local c = l.new({ttl = 100, count = 4}) local a = c('k', 1, create, 'a') return a == c('k', 1, create, 'b'), c('k', 2, create, 'c')[1], n",
            "true|c|2",
        ),
        (
            "local c = l.new({ttl = 100, count = 4}) return c('k', 1, create, nil), c('k', 1, create, nil), n",
            "nil|nil|2",
        ),
        (
            "local c = l.new({neg_ttl = 100, neg_count = 4}) local function f() n = n + 1 return nil, 'failed' end c('k', 1, f) local _, err = c('k', 1, f) return err, n",
            "failed|1",
        ),
        (
            "local ctx = {conf_type = 'route', conf_id = '1', conf_version = 3} return l.plugin_ctx_id(ctx, 'x'), l.plugin_ctx(l.new(), ctx, nil, create, 'a')[1]",
            "route#1#x#3|a",
        ),
        ("return l.global('k', 1, create, 'a')[1], l.global('k', 1, create, 'b')[1]", "a|a"),
    ] {
        check(&[(&format!("{prelude} {code}"), expected)]);
    }
}

#[test]
fn core_schema_has_the_definitions() {
    check(&[
        (
            "local s = require('apisix.core.schema') return s.TYPE_CONSUMER, s.TYPE_METADATA, s.host_def.type, #s.ip_def, s.id_schema.anyOf[2].type",
            "1|2|string|4|integer",
        ),
        ("pcall(function() require('apisix.core.schema').x = 1 end) == false", "true"),
        ("require('apisix.core.schema').valid({type = 'string'})('x')", "true|wrong type"),
        (
            "ngx.re.find('10.0.0.0/8', require('apisix.schema_def').ip_def[2].pattern), ngx.re.find('*.a.com', require('apisix.schema_def').host_def.pattern)",
            "1|1|7",
        ),
    ]);
}
