//! What code can't do: run on, hoard, leave the sandbox.

use super::{answer, folder, registry, settings, text};
use crate::LuaSettings;
use std::time::{Duration, Instant};

#[test]
fn endless_loops_are_stopped_with_the_compiler_on() {
    let before = Instant::now();
    for body in [
        "jit.on() assert(jit.status()) while true do end",
        "jit.on() local i = 0 while true do i = i + 1 end",
        "while true do pcall(function() while true do end end) end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "for i = 1, 100 do ngx.thread.spawn(function() while true do end end) end",
        "local function f() return f() end return f()",
        "while true do ngx.var.x = 1 end",
    ] {
        assert_eq!(text(answer("GET /", body)), "500 ", "{body}");
        assert_eq!(text(answer("GET /", "return 200, 'next'")), "200 next");
    }
    assert!(before.elapsed() < Duration::from_secs(20), "each is stopped after its slice");
}

#[test]
fn memory_is_bounded_and_given_back() {
    let hoard = "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e5) .. i end";
    assert_eq!(text(answer("GET /", hoard)), "500 ");
    assert_eq!(text(answer("GET /", "return 200, 'next'")), "200 next");
    assert_eq!(text(answer("GET /", "return 200, #(('x'):rep(1e9))")), "500 ");
}

#[test]
fn the_sandbox_has_no_way_out() {
    for body in [
        "return 200, tostring(io) .. tostring(os.execute) .. tostring(os.remove) .. tostring(os.getenv)",
        "return 200, tostring(dofile) .. tostring(loadfile) .. tostring(string.dump) .. tostring(package.loadlib)",
        "return 200, tostring(debug.getregistry) .. tostring(debug.sethook) .. tostring(debug.getupvalue) .. tostring(package.loaders)",
        "local all = '' for _, m in ipairs({'io', 'ffi', 'jit.util', 'debug', 'package'}) do
            local ok, found = pcall(require, m)
            all = all .. (ok and m ~= 'debug' and 'FOUND' .. m or 'nil')
         end return 200, all:sub(1, 12)",
        "return 200, tostring(load('\\27LJ\\2')) .. tostring(loadstring('\\27LJ\\2')) .. 'nilnil'",
    ] {
        assert_eq!(text(answer("GET /", body)), "200 nilnilnilnil", "{body}");
    }
    assert_eq!(text(answer("GET /", "return 200, load('return 1 + 1')()")), "200 2");
    assert_eq!(text(answer("GET /", "return 200, type(os.time()) .. type(os.date())")), "200 numberstring");
}

#[test]
fn a_plugin_that_loops_or_fails_leaves_others_alone() {
    let looping = "return {version = 1, priority = 1, name = 'looping', schema = {type = 'object'},
        access = function() while true do end end}";
    let fine = "return {version = 1, priority = 1, name = 'fine', schema = {type = 'object'},
        access = function() return 200, 'fine' end}";
    let (_folder, settings) = folder(&[("looping", looping), ("fine", fine)]);
    let registry = registry(LuaSettings { time_slice: Duration::from_millis(20), ..settings });
    let run = |name: &str| {
        let chain = plugin::testkit::chain(&registry, &serde_json::json!({name: {}})).expect("valid");
        let bench = plugin::testkit::Bench::new("GET /");
        text(plugin::testkit::request(&chain, &mut bench.exchange()))
    };
    for _ in 0..3 {
        assert_eq!(run("looping"), "500 ");
        assert_eq!(run("fine"), "200 fine");
    }
}

#[test]
fn vms_end_with_their_code() {
    // A thread of its own, so that its VMs are known.
    std::thread::spawn(|| {
        for round in 0..50 {
            assert_eq!(text(answer("GET /", &format!("return 200, '{round}'"))), format!("200 {round}"));
        }
        crate::vm::Vm::drop_unused();
        assert_eq!(crate::vm::count(), 0);
    })
    .join()
    .expect("no panic");
    let _ = settings();
}
