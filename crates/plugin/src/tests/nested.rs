//! Plugins inside plugins.

use crate::testkit::{self, Bench};
use crate::{
    CompileContext, CompiledPlugin, Exchange, Flow, Hooks, NESTING_MAX, OnAccess, PluginDef, Registry, Reply,
    WholeBody,
};
use model::ConfigError;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Runs the plugin inside it and adds one to the status of its answer.
struct Outer(CompiledPlugin);

impl OnAccess for Outer {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        exchange.skip(&self.0.def.name);
        self.0.access(exchange).then(exchange, |flow, _| match flow {
            Flow::Reply(reply) => Flow::status(reply.status + 1),
            flow => flow,
        })
    }
}

/// Answers 403, after the time or the body that it is configured to want.
struct Inner {
    delay: Option<Duration>,
    body: bool,
}

impl OnAccess for Inner {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let body = self.body;
        let answer = move |exchange: &mut Exchange<'_>| match exchange.request.whole_body(9) {
            WholeBody::Unread if body => Flow::Body(9),
            _ => Flow::reply(Reply::status(403)),
        };
        match self.delay.filter(|_| exchange.extension::<Waited>().is_none()) {
            Some(delay) => {
                exchange.extensions().insert(Waited);
                let next = exchange.after(delay, Flow::Next);
                next.then(exchange, move |_, exchange| answer(exchange))
            }
            None => answer(exchange),
        }
    }
}

struct Waited;

fn outer(name: &'static str) -> PluginDef {
    let compile = |config: Value, cx: &CompileContext<'_>| {
        let (name, inside) = config.as_object().and_then(|config| config.iter().next()).expect("one plugin");
        let inner = cx.compile(name, inside);
        let inner = inner
            .map_err(|errors| errors.into_iter().map(|e| e.under(&format!("/{name}"))).collect::<Vec<_>>())?;
        Ok(Hooks { access: Some(Arc::new(Outer(inner))), ..Hooks::default() })
    };
    PluginDef::of(name, 2, json!({"type": "object"}), compile)
}

fn inner() -> PluginDef {
    let compile = |config: Value, _: &CompileContext<'_>| {
        if config["delay"] == 0 {
            return Err(vec![ConfigError::new("/delay", "takes no time")]);
        }
        let inner =
            Inner { delay: config["delay"].as_u64().map(Duration::from_secs), body: config["body"] == true };
        Ok(Hooks { access: Some(Arc::new(inner)), ..Hooks::default() })
    };
    let properties = json!({"delay": {"type": "integer"}, "body": {"type": "boolean"}});
    let schema = json!({"type": "object", "properties": properties});
    PluginDef { action: true, ..PluginDef::of("inner", 1, schema, compile) }
}

fn registry() -> Registry {
    Registry::new([outer("outer"), inner()], Map::new()).expect("valid schemas")
}

#[test]
fn an_outer_plugin_decides_after_the_inner_one() {
    for (config, slept_s) in [(json!({}), 0), (json!({"delay": 3}), 3)] {
        let chain = testkit::chain(&registry(), &json!({"outer": {"inner": config}})).expect("valid");
        let bench = Bench::new("GET /");
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 404);
        assert_eq!(bench.services.slept().as_secs(), slept_s);
    }
}

#[test]
fn an_inner_plugin_waits_and_then_reads_the_body() {
    let config = json!({"outer": {"outer": {"inner": {"delay": 1, "body": true}}}});
    let chain = testkit::chain(&registry(), &config).expect("valid");
    let bench = Bench::new("POST /\nContent-Length: 1");
    let mut exchange = bench.exchange();
    let hook = &chain.access[0].hook;
    let Flow::Wait(mut wait) = hook.access(&mut exchange) else { panic!("time passes first") };
    let Poll::Ready(resume) = wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("no time passes in tests")
    };
    assert!(matches!(resume(&mut exchange), Flow::Body(9)));
    let read = Bench::new("POST /\nContent-Length: 1").with_body("x");
    exchange.request.body = read.exchange().request.body.take();
    let Flow::Reply(reply) = hook.access(&mut exchange) else { panic!("the body is there") };
    assert_eq!(reply.status, 405, "both outer plugins have added one");
}

#[test]
fn an_action_that_ran_inside_is_skipped_in_the_chain() {
    let chain = testkit::chain(&registry(), &json!({"inner": {}})).expect("valid");
    let bench = Bench::new("GET /");
    let mut exchange = bench.exchange();
    exchange.skip(&chain.access[0].def.name);
    assert_eq!(testkit::access(&chain, &mut exchange), 0);
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 403);
}

#[test]
fn mistakes_inside_are_named_from_the_outside() {
    for (config, path) in [
        (json!({"outer": {"inner": {"delay": 0}}}), "/outer/outer/inner/delay"),
        (json!({"outer": {"inner": {"delay": "x"}}}), "/outer/outer/inner/delay"),
        (json!({"inner": {"_meta": {"filter": [["a"]]}}}), "/outer/inner/_meta/filter"),
        (json!({"none": {}}), "/outer/none"),
    ] {
        let errors = testkit::chain(&registry(), &json!({ "outer": config })).expect_err("refused");
        assert!(errors[0].path.starts_with(path), "{errors:?}");
    }
    // Switched off, and wrong: it would let everything pass.
    let config = json!({"outer": {"inner": {"delay": 0, "_meta": {"disable": true}}}});
    assert!(testkit::chain(&registry(), &config).is_err());
}

#[test]
fn nesting_has_a_bound_and_every_plugin_inside_is_known() {
    let mut config = json!({"inner": {}});
    for depth in 1..=NESTING_MAX + 1 {
        let found = testkit::chain(&registry(), &json!({ "outer": config }));
        assert_eq!(found.is_ok(), depth <= NESTING_MAX, "{depth}");
        if let Ok(chain) = found {
            let plugin = chain.plugins().next().expect("one plugin");
            assert_eq!(plugin.nested().len(), depth);
        }
        config = json!({ "outer": config });
    }
}
