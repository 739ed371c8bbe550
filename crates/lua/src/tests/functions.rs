//! Functions in configurations: what they read, change and answer.

use super::{answer, errors, functions, registry, request_lines, settings, text};
use crate::LuaSettings;
use plugin::testkit::{self, Bench};
use plugin::{CallErrorKind, Flow, Reply, UpstreamResponse};
use serde_json::json;

#[test]
fn functions_read_the_request() {
    let request = "POST /a/b?x=1&y=2&x=3\nHost: a.com:81\nX-One: 1\nX-Two: a\nX-Two: b\nCookie: k=v";
    for (body, expected) in [
        ("return 200, ngx.var.uri", "200 /a/b"),
        ("return 200, ngx.var.arg_x .. ctx.var.arg_y", "200 12"),
        ("return 200, tostring(ngx.var.arg_none)", "200 nil"),
        ("return 200, ctx.var.cookie_k", "200 v"),
        ("return 200, ctx.var.http_x_one", "200 1"),
        ("return 200, require('apisix.core').request.header(ctx, 'X-One')", "200 1"),
        ("return 200, ngx.req.get_headers()['x-one'] .. ngx.req.get_headers().X_One", "200 11"),
        ("return 200, table.concat(ngx.req.get_headers()['x-two'], ',')", "200 a,b"),
        ("return 200, require('apisix.core').request.headers(ctx)['X-One']", "200 1"),
        ("return 200, table.concat(ngx.req.get_uri_args().x, ',')", "200 1,3"),
        ("return 200, ngx.req.get_method()", "200 POST"),
        ("return 200, ngx.var.host .. ngx.var.remote_addr", "200 a.com127.0.0.1"),
        ("return 200, tostring(ngx.req.http_version())", "200 1.1"),
        ("return 200, ngx.get_phase()", "200 access"),
        ("return 200, ctx.route_id .. tostring(ctx.consumer_name)", "200 1nil"),
        ("return 200, ctx.curr_req_matched._path", "200 /*"),
        ("return 200, (ngx.var.request_method)", "200 POST"),
    ] {
        assert_eq!(text(answer(request, body)), expected, "{body}");
    }
}

#[test]
fn functions_answer_in_every_way() {
    for (body, expected) in [
        ("ngx.say('a', 1, {'b', {'c'}}, true, nil)", "200 a1bctruenil\n"),
        ("ngx.status = 403 ngx.say('no') ngx.exit(200)", "403 no\n"),
        ("ngx.status = 201 ngx.print('made')", "201 made"),
        ("ngx.exit(401)", "401 "),
        ("return 401", "401 "),
        ("return 200", "200 "),
        ("return 403, {message = 'x'}", "403 {\"message\":\"x\"}\n"),
        ("require('apisix.core').response.exit(409, {a = 1})", "409 {\"a\":1}\n"),
        ("require('apisix.core').response.exit(200, 'text')", "200 text"),
        ("pcall(ngx.exit, 418)", "418 "),
        ("local co = coroutine.wrap(function() ngx.exit(419) end) co()", "419 "),
        ("ngx.thread.spawn(function() ngx.exit(420) end)", "420 "),
        ("ngx.redirect('/there')", "302 "),
        ("error('on purpose')", "500 "),
        ("local x = nil; return x.y", "500 "),
    ] {
        assert_eq!(text(answer("GET /", body)), expected, "{body}");
    }
    for body in
        ["", "ngx.exit(0)", "ngx.exit(ngx.DECLINED)", "return", "return nil, nil", "coroutine.yield()"]
    {
        assert_eq!(answer("GET /", body), None, "{body}");
    }
    let page = answer("GET /", "ngx.exit(404)").expect("an answer");
    assert_eq!(page, Reply::status(404), "the gateway's own page");
}

#[test]
fn functions_change_the_request() {
    let bench = Bench::new("GET /a?x=1\nX-Old: 1\nX-Gone: 1");
    let mut exchange = bench.exchange();
    let body = "
        local core = require('apisix.core')
        core.request.set_header(ctx, 'X-New', 'a')
        core.request.add_header(ctx, 'X-New', 'b')
        ngx.req.set_header('X-Old', {'2', 3})
        ngx.req.clear_header('X-Gone')
        assert(core.request.header(ctx, 'X-Gone') == nil)
        assert(core.request.header(ctx, 'X-New') == 'a')
        assert(ngx.req.get_headers()['X-Old'][2] == '3')
        ngx.req.set_uri_args({a = 'b c', d = true, e = {1, 2}})
        assert(ngx.var.args == 'a=b%20c&d&e=1&e=2', ngx.var.args)
        ngx.req.set_method(ngx.HTTP_PUT)
        ctx.var.upstream_uri = '/other?y=1'
        assert(ctx.var.upstream_uri == '/other?y=1')
        ctx.var.upstream_host = 'b.com'
        ngx.var.mine = 'own'
        assert(ctx.var.mine == 'own')
        ctx.noted = 1
        ngx.ctx.mine = 2
        core.response.set_header('X-Answer', 'yes')
        ngx.header['X-More'] = 'm'
        ngx.header.x_under = 'u'
        assert(ngx.header['x-answer'] == 'yes')
    ";
    assert_eq!(testkit::request(&functions("rewrite", body), &mut exchange), None);
    assert_eq!(request_lines(&exchange), "X-New: a\r\nX-New: b\r\nX-Old: 2\r\nX-Old: 3\r\n");
    let edits = exchange.request.edit();
    assert_eq!(edits.target.as_deref(), Some(&b"/other?y=1"[..]));
    assert_eq!(edits.host.as_deref(), Some(&b"b.com"[..]));
    assert_eq!(edits.method.as_deref(), Some("PUT"));
    assert_eq!(testkit::lines(exchange.reply_headers), "X-Answer: yes\r\nX-More: m\r\nx-under: u\r\n");
}

#[test]
fn later_phases_see_what_earlier_ones_left() {
    let registry = registry(settings());
    let function = |body: &str| format!("return function(conf, ctx) {body} end");
    let plugins = json!({
        "serverless-pre-function": {"phase": "rewrite", "functions": [function("ctx.a = 1 ngx.ctx.b = 2")]},
        "serverless-post-function": {"phase": "access", "functions": [
            function("ctx.c = 3"),
            function("return 200, tostring(ctx.a) .. tostring(ngx.ctx.b) .. tostring(ngx.ctx.api_ctx.c)"),
            function("return 500"),
        ]},
    });
    let chain = testkit::chain(&registry, &plugins).expect("valid");
    let bench = Bench::new("GET /");
    assert_eq!(text(testkit::request(&chain, &mut bench.exchange())), "200 123");
}

#[test]
fn what_is_printed_is_sent_when_all_plugins_have_run() {
    let registry = registry(settings());
    let function = |body: &str| format!("return function(conf, ctx) {body} end");
    let plugins = |last: &str| {
        json!({
            "serverless-pre-function": {"phase": "rewrite", "functions": [function("ngx.status = 201 ngx.say('a')")]},
            "serverless-post-function": {"functions": [function(last)]},
        })
    };
    for (last, expected) in
        [("ngx.say('b')", "201 a\nb\n"), ("return 403", "201 a\n"), ("error('x')", "500 "), ("", "201 a\n")]
    {
        let chain = testkit::chain(&registry, &plugins(last)).expect("valid");
        let bench = Bench::new("GET /");
        assert_eq!(text(testkit::request(&chain, &mut bench.exchange())), expected, "{last}");
    }
}

#[test]
fn responses_are_changed_in_their_phases() {
    let bench = Bench::new("GET /a");
    let mut exchange = bench.exchange();
    let head = "ngx.status = 202
        ngx.header['X-Was'] = ngx.header['X-From']
        ngx.header['X-From'] = nil
        ngx.header['X-Count'] = 7
        assert(ngx.resp.get_headers()['x-was'] == 'up')";
    let reply = Reply::text(200, "body").with_header("X-From", "up");
    let made = UpstreamResponse { head: None, reply: Some(&reply) };
    for step in &functions("header_filter", head).response {
        exchange.status = 200;
        step.hook.response(&mut exchange, &made);
    }
    assert_eq!(exchange.status, 202);
    let lines = testkit::lines(exchange.reply_headers);
    assert!(
        lines.contains("X-Was: up\r\n") && lines.contains("X-Count: 7\r\n") && !lines.contains("X-From:")
    );

    let mut exchange = bench.exchange();
    let filter = "local body = require('apisix.core').response.hold_body_chunk(ctx)
        if body then ngx.arg[1] = body:upper() .. ngx.var.uri .. ngx.status end";
    let chain = functions("body_filter", filter);
    assert_eq!(testkit::reply(&chain, &mut exchange, &Reply::text(200, "body")), b"BODY/a200");
    let each = "ngx.arg[1] = '[' .. ngx.arg[1] .. (ngx.arg[2] and 'E' or '') .. ']'";
    assert_eq!(
        testkit::reply(&functions("body_filter", each), &mut bench.exchange(), &Reply::text(200, "x")),
        b"[x][E]"
    );
}

#[test]
fn the_log_phase_looks_and_changes_nothing() {
    let bench = Bench::new("GET /");
    let mut exchange = bench.exchange();
    let body = "
        assert(ngx.var.status == '404' and ngx.status == 404)
        assert(not pcall(ngx.req.set_header, 'X-A', '1'))
        assert(not pcall(ngx.sleep, 0))
        assert(not pcall(ngx.say, 'x'))
        ngx.shared['plugin-limit-count']:incr('logged', 1, 0)";
    let chain = functions("log", body);
    testkit::log(&chain, &mut exchange, 404);
    let seen = "return 200, tostring(ngx.shared['plugin-limit-count']:get('logged'))";
    // Another host has dictionaries of its own.
    assert_eq!(text(answer("GET /", seen)), "200 nil");
}

#[test]
fn waiting_suspends_the_function() {
    for (body, expected) in [
        ("ngx.sleep(0.5) return 200, 'slept'", "200 slept"),
        ("local ok = pcall(function() ngx.sleep(1) error('x') end) return 200, tostring(ok)", "200 false"),
        (
            "local co = coroutine.wrap(function() ngx.sleep(1) coroutine.yield(5) return 6 end)
             return 200, co() .. ',' .. co()",
            "200 5,6",
        ),
        (
            "local a = ngx.thread.spawn(function(n) ngx.sleep(1) return n end, 7)
             local b = ngx.thread.spawn(function() return 8 end)
             local _, x = ngx.thread.wait(a)
             local _, y = ngx.thread.wait(b)
             return 200, x .. y",
            "200 78",
        ),
        (
            "local t = ngx.thread.spawn(function() ngx.sleep(1) error('inside') end)
             local ok, why = ngx.thread.wait(t)
             return 200, tostring(ok) .. tostring(why):match('inside')",
            "200 falseinside",
        ),
        (
            "local sema = require('ngx.semaphore').new(0)
             ngx.thread.spawn(function() sema:post(1) end)
             return 200, tostring(sema:wait(1)) .. tostring((select(2, sema:wait(0))))",
            "200 truetimeout",
        ),
        ("for k in (function() ngx.sleep(1) return nil end) do end return 200, 'iterated'", "200 iterated"),
    ] {
        assert_eq!(text(answer("GET /", body)), expected, "{body}");
    }
}

#[test]
fn bodies_are_read_when_asked_for() {
    let bench = Bench::new("POST /\nContent-Length: 7\nContent-Type: application/x-www-form-urlencoded");
    let chain = functions("access", "return 200, require('apisix.core').request.get_body()");
    let flow = chain.access[0].hook.access(&mut bench.exchange());
    assert!(matches!(flow, Flow::Body(_)), "{flow:?}");

    let bench = bench.with_body("a=1&b=2");
    for (body, expected) in [
        ("return 200, require('apisix.core').request.get_body()", "200 a=1&b=2"),
        (
            "return 200, tostring(select(2, require('apisix.core').request.get_body(3)))",
            "200 request size 7 is greater than the maximum size 3 allowed",
        ),
        ("ngx.req.read_body() return 200, ngx.req.get_body_data()", "200 a=1&b=2"),
        ("ngx.req.read_body() return 200, ngx.req.get_post_args().b", "200 2"),
        ("ngx.req.read_body() ngx.req.set_body_data('new') return 200, ngx.req.get_body_data()", "200 new"),
        ("return 200, ctx.var.post_arg_a", "200 1"),
    ] {
        let answered = testkit::request(&functions("access", body), &mut bench.exchange());
        assert_eq!(text(answered), expected, "{body}");
    }
}

#[test]
fn http_calls_go_by_the_worker() {
    let body = "
        local http = require('resty.http')
        local httpc = http.new()
        httpc:set_timeout(1000)
        local res, err = httpc:request_uri('http://127.0.0.1:81/p?q=1', {
            method = 'POST', body = 'hello', headers = {['X-A'] = 'a', Host = 'svc.local'},
        })
        if not res then return 500, err end
        return res.status, res.body .. res.headers['x-from'] .. res.reason";
    let bench = Bench::new("GET /");
    bench.services.answer(201, &[("X-From", "there")], "made");
    assert_eq!(
        text(testkit::request(&functions("access", body), &mut bench.exchange())),
        "201 madethereCreated"
    );
    let calls = bench.services.calls();
    assert_eq!((&*calls[0].method, &*calls[0].authority, &*calls[0].target), ("POST", "svc.local", "/p?q=1"));
    assert_eq!(calls[0].body, b"hello");
    assert!(calls[0].headers.contains("X-A: a\r\n"), "{}", calls[0].headers);
    let bench = Bench::new("GET /");
    bench.services.fail(CallErrorKind::Timeout);
    assert_eq!(text(testkit::request(&functions("access", body), &mut bench.exchange())), "500 timeout");
}

#[test]
fn dictionaries_are_shared_by_the_code_of_a_host() {
    let body = "return 200, tostring((select(2, xpcall(function()
        local dict = ngx.shared['plugin-limit-req']
        assert(dict:set('k', 'v') and dict:get('k') == 'v')
        assert(dict:incr('n', 2, 10) == 12 and dict:incr('n', 1) == 13)
        assert(select(2, dict:incr('none', 1)) == 'not found')
        assert(select(2, dict:add('k', 1)) == 'exists' and dict:add('new', true))
        assert(select(2, dict:replace('missing', 1)) == 'not found')
        assert(dict:set('short', 1, 0.001)) ngx.sleep(0)
        dict:delete('k') assert(dict:get('k') == nil)
        assert(dict:rpush('l', 'a') == 1 and dict:lpush('l', 'b') == 2 and dict:lpop('l') == 'b' and dict:llen('l') == 1)
        assert(dict:ttl('n') == 0 and #dict:get_keys() >= 3)
        dict:flush_all() assert(#dict:get_keys() == 0)
        assert(ngx.shared.unknown == nil)
        end, debug.traceback))))";
    assert_eq!(text(answer("GET /", body)), "200 nil");
}

#[test]
fn code_in_configurations_is_run_where_it_is_allowed() {
    let function = |text: &str| json!({"serverless-pre-function": {"functions": [text]}});
    let refused = registry(LuaSettings::default());
    let found = errors(&refused, &function("return function() end"));
    assert!(found.len() == 1 && found[0].contains("apisix.allow_code_in_config"), "{found:?}");
    let allowed = registry(settings());
    for (text, expected) in [
        ("return function() end", None),
        ("local x = 1\nreturn x = 2", Some("failed to loadstring: [serverless-pre-function]:2:")),
        ("return 1", Some("only accept Lua function, the input code type is ")),
        ("error('at once')", Some("pcall error: [serverless-pre-function]:1: at once")),
        ("while true do end", Some("pcall error: ")),
    ] {
        let found = errors(&allowed, &function(text));
        match expected {
            None => assert!(found.is_empty(), "{found:?}"),
            Some(expected) => assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}"),
        }
    }
    assert_eq!(errors(&allowed, &json!({"serverless-pre-function": {"functions": []}})).len(), 1);
}
