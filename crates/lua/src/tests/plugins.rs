//! Plugins from files.

use super::{errors, folder, registry, request_lines, text, write};
use crate::{Host, LuaSettings};
use plugin::testkit::{self, Bench};
use serde_json::{Map, json};

/// A plugin as APISIX's documentation has it.
const EXAMPLE: &str = r#"
local core = require("apisix.core")
local plugin_name = "greeter"
local schema = {
    type = "object",
    properties = {
        greeting = { type = "string", minLength = 1 },
        times = { type = "integer", minimum = 1, default = 2 },
        nested = { type = "object", properties = { on = { type = "boolean", default = true } }, default = {} },
    },
    required = { "greeting" },
}
local metadata_schema = { type = "object", properties = { suffix = { type = "string" } }, required = {} }
local _M = {
    version = 0.1,
    priority = 1234,
    name = plugin_name,
    schema = schema,
    metadata_schema = metadata_schema,
}

function _M.check_schema(conf, schema_type)
    if schema_type == core.schema.TYPE_METADATA then
        return core.schema.check(metadata_schema, conf)
    end
    local ok, err = core.schema.check(schema, conf)
    if not ok then
        return false, err
    end
    if conf.greeting == "forbidden" then
        return false, "that is no greeting"
    end
    return true
end

function _M.rewrite(conf, ctx)
    core.request.set_header(ctx, "X-Greeting", conf.greeting:rep(conf.times))
    core.log.info("greeted ", core.json.delay_encode and "x" or "y")
end

function _M.access(conf, ctx)
    if conf.nested.on and ctx.var.arg_stop then
        return 403, { message = conf.greeting }
    end
end

return _M
"#;

#[test]
fn a_plugin_from_a_file_is_checked_and_run() {
    let (_folder, settings) = folder(&[("greeter", EXAMPLE)]);
    let registry = registry(settings);
    let def = registry.get("greeter").expect("it is there");
    assert_eq!(def.priority, 1234);
    assert!(def.metadata_schema.is_some());
    assert_eq!(errors(&registry, &json!({"greeter": {"greeting": "hi"}})), Vec::<String>::new());
    let found = errors(&registry, &json!({"greeter": {"greeting": "forbidden"}}));
    assert!(found[0].ends_with("that is no greeting"), "{found:?}");
    assert_eq!(errors(&registry, &json!({"greeter": {}})).len(), 1);
    let chain = testkit::chain(&registry, &json!({"greeter": {"greeting": "hi"}})).expect("valid");
    let bench = Bench::new("GET /");
    let mut exchange = bench.exchange();
    assert_eq!(testkit::request(&chain, &mut exchange), None);
    assert_eq!(request_lines(&exchange), "X-Greeting: hihi\r\n");
    let bench = Bench::new("GET /?stop=1");
    assert_eq!(text(testkit::request(&chain, &mut bench.exchange())), "403 {\"message\":\"hi\"}\n");
}

#[test]
fn modules_that_can_not_be_used_are_refused_with_file_and_line() {
    let (dir, settings) = folder(&[
        ("syntax", "local x = = 1"),
        ("fails", "\n\nerror('while loading')"),
        ("nothing", "return 5"),
        ("missing", "return require('no.such.module')"),
    ]);
    let refused = Host::new(settings, None).plugins(None).expect_err("refused");
    let of = |name: &str| refused.iter().find(|refused| refused.name == name).expect(name).why.clone();
    let path = |name: &str| dir.path().join(name).display().to_string();
    assert!(of("syntax").starts_with(&format!("{}:1:", path("syntax.lua"))), "{}", of("syntax"));
    assert!(of("fails").starts_with(&format!("{}:3: while loading", path("fails.lua"))), "{}", of("fails"));
    assert!(of("nothing").contains("must return a table"), "{}", of("nothing"));
    assert!(of("missing").contains("module 'no.such.module' not found"), "{}", of("missing"));
}

#[test]
fn a_reload_changes_the_code_and_leaves_requests_in_flight_alone() {
    let plugin = |answer: &str| {
        format!(
            "return {{priority = 1, name = 'p', schema = {{}}, access = function() return 200, '{answer}' end}}"
        )
    };
    let (dir, settings) = folder(&[("p", &plugin("old"))]);
    let before = Host::new(settings.clone(), None);
    let registry = |host: &Host| {
        let plugins = host.plugins(None).expect("loaded");
        plugin::Registry::new(plugins, Map::new()).expect("valid")
    };
    let chain = |host: &Host| testkit::chain(&registry(host), &json!({"p": {}})).expect("valid");
    let run = |chain: &plugin::Chain| text(testkit::request(chain, &mut Bench::new("GET /").exchange()));
    let old = chain(&before);
    assert_eq!(run(&old), "200 old");
    assert!(Host::new(settings.clone(), Some(&before)).is(&before), "nothing has changed");
    write(dir.path(), &[("p", &plugin("new"))]);
    let after = Host::new(settings.clone(), Some(&before));
    assert!(!after.is(&before) && !before.is_current());
    let new = chain(&after);
    assert_eq!((run(&old), run(&new)), ("200 old".to_owned(), "200 new".to_owned()));
    write(dir.path(), &[("q", &plugin("q"))]);
    assert!(!Host::new(settings, Some(&after)).is(&after), "one more plugin");
}

#[test]
fn helpers_of_plugins_are_found_on_the_path() {
    let root = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(root.path().join("apisix/plugins")).expect("a folder");
    std::fs::create_dir_all(root.path().join("mine")).expect("a folder");
    std::fs::write(root.path().join("mine/words.lua"), "return {word = 'from a helper'}").expect("written");
    let plugin = "local words = require('mine.words')
        return {priority = 1, name = 'talker', schema = {}, access = function() return 200, words.word end}";
    std::fs::write(root.path().join("apisix/plugins/talker.lua"), plugin).expect("written");
    let path = vec![format!("{}/?.lua", root.path().display())];
    let host = Host::new(LuaSettings { path, ..LuaSettings::default() }, None);
    let listed = ["talker".to_owned(), "unknown".to_owned()];
    let plugins = host.plugins(Some(&listed)).expect("loaded");
    assert_eq!(plugins.iter().map(|def| &*def.name).collect::<Vec<_>>(), ["talker"]);
    let registry = plugin::Registry::new(plugins, Map::new()).expect("valid");
    let chain = testkit::chain(&registry, &json!({"talker": {}})).expect("valid");
    assert_eq!(text(testkit::request(&chain, &mut Bench::new("GET /").exchange())), "200 from a helper");
}

#[test]
fn auth_plugins_find_their_consumers() {
    let plugin = r#"
        local core, consumer_mod = require("apisix.core"), require("apisix.consumer")
        local _M = { priority = 2500, type = "auth", name = "token-auth", schema = { type = "object" },
            consumer_schema = { type = "object", properties = { token = { type = "string" } }, required = { "token" } } }
        function _M.check_schema(conf, schema_type)
            if schema_type == core.schema.TYPE_CONSUMER then
                return core.schema.check(_M.consumer_schema, conf)
            end
            return true
        end
        function _M.rewrite(conf, ctx)
            local token = core.request.header(ctx, "X-Token")
            if not token then
                return 401, "no token"
            end
            local consumer_conf = consumer_mod.plugin("token-auth")
            if not consumer_conf then
                return 401, "nobody"
            end
            local consumers = consumer_mod.consumers_kv("token-auth", consumer_conf, "token")
            local consumer = consumers[token]
            if not consumer then
                return 401, "wrong token"
            end
            consumer_mod.attach_consumer(ctx, consumer, consumer_conf)
        end
        function _M.access(conf, ctx)
            return 200, ctx.consumer_name .. ctx.var.consumer_name
        end
        return _M"#;
    let (_folder, settings) = folder(&[("token-auth", plugin)]);
    let registry = registry(settings);
    assert!(registry.get("token-auth").expect("there").is_auth());
    let chain = testkit::chain(&registry, &json!({"token-auth": {}})).expect("valid");
    let run = |head: &str, consumers: &[(&str, serde_json::Value)]| {
        let mut bench = Bench::new(head);
        bench.consumers = testkit::consumers(&registry, consumers).expect("valid");
        let mut exchange = bench.exchange();
        text(testkit::request(&chain, &mut exchange))
    };
    let jack =
        [("jack", json!({"token-auth": {"token": "t1"}})), ("jill", json!({"token-auth": {"token": "t2"}}))];
    assert_eq!(run("GET /\nX-Token: t1", &jack), "200 jackjack");
    assert_eq!(run("GET /\nX-Token: t2", &jack), "200 jilljill");
    assert_eq!(run("GET /\nX-Token: t3", &jack), "401 wrong token");
    assert_eq!(run("GET /\nX-Token: t1", &jack[1..]), "401 wrong token");
    assert_eq!(run("GET /", &jack), "401 no token");
    assert_eq!(run("GET /\nX-Token: t1", &[]), "401 nobody");
    assert!(testkit::consumers(&registry, &[("jim", json!({"token-auth": {}}))]).is_err());
}
