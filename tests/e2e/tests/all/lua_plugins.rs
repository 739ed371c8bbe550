//! Plugins and functions in Lua, through the whole gateway.

use e2e::{Gateway, Message, Peer, Upstream, eventually};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A gateway that runs code in resources.
fn gateway() -> Gateway {
    Gateway::with(json!({ "apisix": { "allow_code_in_config": true } }))
}

/// An upstream that answers with the request it got.
fn echo() -> Upstream {
    Upstream::answering(|request: &Message| {
        let body = format!("{}\n{}\n\n{}", request.start, request.fields.join("\n"), request.text());
        format!("HTTP/1.1 200 OK\r\nX-Up: 1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
}

fn nodes(upstream: &Upstream) -> Value {
    json!({ "type": "roundrobin", "nodes": { upstream.address(): 1 } })
}

/// A route with a function in one phase.
fn function(gateway: &Gateway, upstream: &Upstream, phase: &str, body: &str) {
    let function = format!("return function(conf, ctx) {body} end");
    let plugins = json!({ "serverless-pre-function": { "phase": phase, "functions": [function] } });
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": nodes(upstream), "plugins": plugins }));
}

#[test]
fn functions_act_on_requests_and_responses() {
    let (gateway, upstream) = (gateway(), echo());
    let rewrite = "ngx.req.set_header('X-From-Lua', ngx.var.arg_a) ctx.var.upstream_uri = '/changed?b=1'";
    function(&gateway, &upstream, "rewrite", rewrite);
    let answer = gateway.get("/x?a=7");
    assert!(answer.text().starts_with("GET /changed?b=1 HTTP/1.1\n"), "{}", answer.text());
    assert!(answer.text().contains("X-From-Lua: 7\n"), "{}", answer.text());

    function(&gateway, &upstream, "access", "ngx.sleep(0.02) ngx.status = 418 ngx.say('tea') ngx.exit(200)");
    let answer = gateway.get("/");
    assert_eq!((answer.status(), answer.text().as_str()), (418, "tea\n"));

    let head = "ngx.header['X-Added'] = ngx.header['X-Up'] .. 'b' ngx.header['X-Up'] = nil ngx.status = 203";
    function(&gateway, &upstream, "header_filter", head);
    let answer = gateway.get("/");
    assert_eq!((answer.status(), answer.field("X-Added"), answer.field("X-Up")), (203, Some("1b"), None));

    function(
        &gateway,
        &upstream,
        "body_filter",
        "ngx.arg[1] = ngx.arg[1]:gsub('GET', 'GOT') .. (ngx.arg[2] and '!' or '')",
    );
    let text = gateway.get("/").text();
    assert!(text.starts_with("GOT / ") && text.ends_with('!'), "{text}");

    function(&gateway, &upstream, "log", "ngx.log(ngx.ERR, 'logged ', ngx.status, ' ', ngx.var.uri)");
    assert_eq!(gateway.get("/seen").status(), 200);
    eventually("the line of the log phase", || gateway.stderr().contains("logged 200 /seen").then_some(()));
}

#[test]
fn functions_read_and_change_bodies() {
    let (gateway, upstream) = (gateway(), echo());
    let body = "local core = require('apisix.core')
        local body = core.request.get_body()
        ngx.req.set_body_data(body:upper() .. '!')";
    function(&gateway, &upstream, "access", body);
    let mut peer = gateway.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
    std::thread::sleep(Duration::from_millis(20));
    peer.send("cdef");
    let answer = peer.response();
    assert!(answer.text().ends_with("\n\nABCDEF!"), "{}", answer.text());
}

#[test]
fn functions_call_services_and_wait_beside_each_other() {
    let (gateway, upstream) = (gateway(), echo());
    let service = Upstream::answering(|request: &Message| {
        std::thread::sleep(Duration::from_millis(100));
        let body = request.start.clone();
        format!("HTTP/1.1 202 Accepted\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    let body = format!(
        "local http = require('resty.http')
         local function ask(path)
             local res, err = http.new():request_uri('http://{}' .. path, {{ method = 'POST', body = 'x' }})
             return res and res.body .. res.status or err
         end
         local one, two = ngx.thread.spawn(ask, '/one'), ngx.thread.spawn(ask, '/two')
         local _, a = ngx.thread.wait(one)
         local _, b = ngx.thread.wait(two)
         return 200, a .. ' ' .. b",
        service.address()
    );
    function(&gateway, &upstream, "access", &body);
    let text = gateway.get("/").text();
    assert_eq!(text, "POST /one HTTP/1.1202 POST /two HTTP/1.1202");
    // A worker goes on with others meanwhile.
    let mut waiting: Vec<Peer> = (0..20).map(|_| gateway.connect()).collect();
    let before = Instant::now();
    waiting.iter_mut().for_each(|peer| peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    waiting.iter_mut().for_each(|peer| assert_eq!(peer.response().status(), 200));
    assert!(before.elapsed() < Duration::from_millis(1500), "{:?}", before.elapsed());
}

#[test]
fn an_endless_loop_is_stopped_and_others_are_served() {
    let (gateway, upstream) = (gateway(), echo());
    function(&gateway, &upstream, "access", "while true do end");
    gateway.put("routes/2", &json!({ "uri": "/fine", "priority": 1, "upstream": nodes(&upstream) }));
    for _ in 0..3 {
        assert_eq!(gateway.get("/loop").status(), 500);
        assert_eq!(gateway.get("/fine").status(), 200);
    }
    let log = gateway.stderr();
    assert!(log.contains("serverless-pre-function") && log.contains("time_slice"), "{log}");
}

#[test]
fn code_in_resources_is_refused_unless_it_is_switched_on() {
    let (gateway, upstream) = (Gateway::start(), echo());
    let with = |plugins: Value| json!({ "uri": "/", "upstream": nodes(&upstream), "plugins": plugins });
    let functions = json!({ "serverless-pre-function": { "functions": ["return function() end"] } });
    let mut filtered = with(json!({}));
    filtered["filter_func"] = json!("function(vars) return true end");
    for route in [with(functions), filtered] {
        let answer = gateway.admin("PUT", "routes/1", &route);
        assert_eq!(answer.status(), 400);
        assert!(answer.text().contains("apisix.allow_code_in_config"), "{}", answer.text());
    }
}

#[test]
fn routes_are_chosen_by_their_functions() {
    let (gateway, upstream) = (gateway(), echo());
    let mut route = json!({ "uri": "/*", "upstream": nodes(&upstream) });
    route["filter_func"] =
        json!("function(vars) return vars.arg_name == 'json' and vars.http_x_a ~= nil end");
    gateway.put("routes/1", &route);
    assert_eq!(gateway.get("/?name=json").status(), 404);
    assert_eq!(gateway.get("/?name=other").status(), 404);
    let mut peer = gateway.connect();
    peer.send("GET /?name=json HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n\r\n");
    assert_eq!(peer.response().status(), 200);
    for function in ["function(vars) return vars.none.x end", "function(vars) while true do end end"] {
        route["filter_func"] = json!(function);
        gateway.put("routes/1", &route);
        assert_eq!(gateway.get("/").status(), 404, "{function}");
    }
    route["filter_func"] = json!("function(vars) return = 1 end");
    assert_eq!(gateway.admin("PUT", "routes/1", &route).status(), 400);
}

fn plugin(answer: &str) -> String {
    format!(
        "local core = require('apisix.core')
        local schema = {{ type = 'object', properties = {{ greeting = {{ type = 'string', default = 'hi' }} }} }}
        local _M = {{ version = 0.1, priority = 10, name = 'greeter', schema = schema }}
        function _M.check_schema(conf)
            return core.schema.check(schema, conf)
        end
        function _M.access(conf, ctx)
            if ctx.var.arg_wait then
                ngx.sleep(0.3)
            end
            return 200, conf.greeting .. ' {answer}'
        end
        return _M"
    )
}

#[test]
fn plugins_are_loaded_changed_and_refused_while_requests_come() {
    let config =
        json!({ "apisix": { "lua": { "plugins_dir": ".." } }, "nginx_config": { "worker_processes": 2 } });
    let gateway = Gateway::with_file("greeter.lua", &plugin("one"), config);
    let upstream = echo();
    let route = |config: Value| json!({ "uri": "/*", "upstream": nodes(&upstream), "plugins": { "greeter": config } });
    gateway.put("routes/1", &route(json!({})));
    assert_eq!(gateway.get("/").text(), "hi one");
    assert_eq!(gateway.admin("PUT", "routes/2", &route(json!({ "greeting": 1 }))).status(), 400);
    let list = gateway.admin("GET", "plugins/list", &Value::Null);
    assert!(list.text().contains("greeter"), "{}", list.text());

    let (failed, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let text = gateway.get("/").text();
                if !text.starts_with("hi ") {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut waiting = gateway.connect();
        waiting.send("GET /?wait=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        std::thread::sleep(Duration::from_millis(50));
        let file = gateway.dir().join("greeter.lua");
        for round in 0..5 {
            std::fs::write(&file, plugin(&format!("round {round}"))).unwrap();
            assert_eq!(gateway.admin("PUT", "plugins/reload", &Value::Null).text(), "done");
            assert_eq!(gateway.get("/").text(), format!("hi round {round}"));
        }
        assert_eq!(waiting.response().text(), "hi one", "it ends with the code that it began with");
        std::fs::write(&file, "local x = = 1").unwrap();
        let refused = gateway.admin("PUT", "plugins/reload", &Value::Null);
        assert_eq!(refused.status(), 400);
        assert!(refused.text().contains("greeter.lua:1:"), "{}", refused.text());
        assert_eq!(gateway.get("/").text(), "hi round 4", "the code before stays");
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.load(Ordering::Relaxed), 0);
}
