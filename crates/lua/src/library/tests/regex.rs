//! `ngx.re`.

use super::check;

#[test]
fn matches_have_groups_by_number_and_name() {
    check(&[
        ("local m = ngx.re.match('hello, 1234', '([0-9])[0-9]+') return m[0], m[1]", "1234|1"),
        (
            "local m = ngx.re.match('hello, 1234', '([0-9])(?<remaining>[0-9]+)') return m[0], m[2], m.remaining",
            "1234|234|234",
        ),
        (
            "local m = ngx.re.match('hello, world', '(world)|(hello)|(?<named>howdy)') return m[0], m[1], m[2], m[3], m.named",
            "hello|false|hello|false|false",
        ),
        ("local m, err = ngx.re.match('hello', '[0-9]+') return m, err", "nil|nil"),
        ("local t = {} local m = ngx.re.match('a', 'a', '', nil, t) return m == t, t[0]", "true|a"),
        ("ngx.re.match(123, '2')[0]", "2"),
        ("local m = ngx.re.match('ab', '(?<x>a)|(?<x>b)', 'D') return m.x", "a"),
    ]);
}

#[test]
fn positions_are_kept_in_the_context() {
    check(&[
        (
            "local c = {pos = 2} local m = ngx.re.match('1234, hello', '[0-9]+', '', c) return m[0], c.pos",
            "234|5",
        ),
        ("local c = {} ngx.re.match('aab', 'a', 'jo', c) return c.pos", "2"),
        ("local c = {pos = 9} return ngx.re.match('ab', 'a', '', c), c.pos", "nil|9"),
        ("local c = {pos = 3} return ngx.re.match('ab', 'a', 'a', c)", "nil|nil"),
        ("ngx.re.match('ba', 'a|c', 'a'), ngx.re.match('ab', 'a#x', 'ax')[0]", "nil|a"),
        ("ngx.re.match('ba', [[\\Qa]], 'a'), ngx.re.match('ab', [[\\Qa]], 'a')[0]", "nil|a"),
        (
            "ngx.re.find('hello, 1234', '([0-9])([0-9]+)', 'jo'), ngx.re.find('hello, 1234', '([0-9])([0-9]+)', 'jo', nil, 2)",
            "8|9|11",
        ),
        ("ngx.re.find('ab', 'c'), ngx.re.find('ab', '(c)?', nil, nil, 1)", "nil|nil|nil|nil"),
        ("ngx.re.find('a', 'a', '', nil, 5)", "nil|nil|nth out of bound"),
    ]);
}

#[test]
fn options_are_those_of_openresty() {
    check(&[
        (
            "ngx.re.match('HELLO', 'hello', 'ijo')[0], ngx.re.match('a\\nb', '^b', 'm')[0], ngx.re.match('a\\nb', 'a.b', 's') ~= nil",
            "HELLO|b|true",
        ),
        ("ngx.re.match('ab', 'a b', 'x')[0]", "ab"),
        ("#ngx.re.match('\\195\\164', '.', 'u')[0], #ngx.re.match('\\195\\164', '.')[0]", "2|1"),
        ("#ngx.re.match('\\255x', '\\255x')[0]", "2"),
        (
            "select(2, pcall(ngx.re.match, 'a', 'a', 'q')):match('unknown flag .*')",
            "unknown flag \"q\" (flags \"q\")",
        ),
        (
            "select(2, ngx.re.match('a', '(abc')):match('^pcre_compile%(%) failed: missing closing parenthesis in \"%(abc\"') ~= nil",
            "true",
        ),
        (
            "type(require('resty.core.regex').re_match_compile('a+', 'j')), (require('resty.core.regex').re_match_compile('a('))",
            "table|nil",
        ),
        ("select(2, ngx.re.match('\\255', '.', 'u')):match('^pcre_exec') ", "pcre_exec"),
    ]);
}

#[test]
fn matches_are_iterated() {
    check(&[
        (
            "local out = {} for m in ngx.re.gmatch('hello, world!', '([a-z]+)', 'i') do out[#out + 1] = m[1] end return unpack(out)",
            "hello|world",
        ),
        ("local out = {} for m in ngx.re.gmatch('ab', 'x*') do out[#out + 1] = #m[0] end return #out", "3"),
        ("ngx.re.gmatch('a', '(')", "nil|pcre_compile() failed: missing closing parenthesis in \"(\""),
        ("local it = ngx.re.gmatch('a', 'b') return it()", "nil|nil"),
    ]);
}

#[test]
fn replacements_are_templates_or_functions() {
    check(&[
        ("ngx.re.sub('hello, 1234', '([0-9])[0-9]', '[$0][$1]')", "hello, [12][1]34|1"),
        ("ngx.re.sub('hello, 1234', '[0-9]', '${0}00')", "hello, 100234|1"),
        ("ngx.re.sub('hello, 1234', '[0-9]', '$$')", "hello, $234|1"),
        (
            "ngx.re.sub('hello, 1234', '([0-9])[0-9]', function(m) return '[' .. m[0] .. '][' .. m[1] .. ']' end)",
            "hello, [12][1]34|1",
        ),
        ("ngx.re.gsub('hello, world', '([a-z])[a-z]+', '[$0,$1]', 'i')", "[hello,h], [world,w]|2"),
        ("ngx.re.gsub('abc', '', '-'), ngx.re.gsub('abc', 'x', '-')", "-a-b-c-|abc|0"),
        ("ngx.re.gsub('abc', '', function() return '-' end)", "-a-b-c-|4"),
        ("ngx.re.gsub('aaa', 'a', function(m) return 1 end)", "111|3"),
        (
            "ngx.re.sub('a', 'a', '$x')",
            "nil|nil|failed to compile the replacement template: invalid capturing variable name found in \"$x\"",
        ),
        (
            "local ok, e = pcall(ngx.re.gsub, 'a', 'a', function() error('mine', 0) end) return ok, e",
            "false|mine",
        ),
        ("ngx.re.gsub('\\195\\164', '', '-', 'u')", "-\u{c3}\u{a4}-|2"),
        ("pcall(ngx.re.gsub, 'a', 'a', function() return {} end) == false", "true"),
    ]);
}

#[test]
fn strings_are_split() {
    check(&[
        ("table.concat(require('ngx.re').split('a,b,c,d', ','), ' ')", "a b c d"),
        ("table.concat(require('ngx.re').split('a,b,c,d', '(,)'), ' ')", "a , b , c , d"),
        ("table.concat(require('ngx.re').split('a,b,c,d', ',', nil, {pos = 5}), ' ')", "c d"),
        ("table.concat(require('ngx.re').split('a,b,c,d', ',', nil, nil, 3), ' ')", "a b c,d"),
        (
            "local t = {'W', 'X', 'Y', 'Z'} require('ngx.re').split('a,b', ',', nil, nil, nil, t) return t[1], t[2], t[3], t[4]",
            "a|b|nil|Z",
        ),
        (
            "table.concat(require('ngx.re').split('/a/b', '/'), '|'), #require('ngx.re').split('', '/')",
            "|a|b|1",
        ),
        ("table.concat(require('ngx.re').split('abc', ''), ' ')", "a b c"),
        (
            "require('ngx.re').split('a', '(')",
            "nil|pcre_compile() failed: missing closing parenthesis in \"(\"",
        ),
    ]);
}
