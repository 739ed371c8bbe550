//! Authenticates with several authentication plugins; a request passes if one of them accepts it.
//!
//! ## When to use
//! Use it when consumers of one route authenticate in different ways, for example programs with a key and people with
//! a password. The plugins run in their order, and the first that identifies the consumer decides.
//!
//! ## Example
//! ```json
//! {
//!     "multi-auth": {
//!         "auth_plugins": [
//!             {"basic-auth": {}},
//!             {"key-auth": {"header": "apikey", "hide_credentials": true}}
//!         ]
//!     }
//! }
//! ```
//! If none accepts the request, the response is 401 with `{"message":"Authorization Failed"}`, and the error log has each reason.
//!
//! ## Differences from APISIX
//! - The 401 carries the challenge of every method in `WWW-Authenticate`, as RFC 9110 (11.6.1) allows; APISIX sends the
//!   last one's, also with responses to requests that were let in.
//! - An element of `auth_plugins` that is not an object of plugins is rejected when it is configured.

use model::ConfigError;
use model::var::BodyNeed;
use plugin::{CompileContext, CompiledPlugin, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<MultiAuth>("multi-auth", 2600).auth().on_rewrite().build()
}

/// The user's configuration.
#[derive(Debug, Deserialize)]
pub struct Config {
    auth_plugins: Vec<Value>,
}

/// The methods, in the order in which they are tried.
pub struct MultiAuth {
    methods: Arc<[CompiledPlugin]>,
}

/// The method at which the exchange stopped to wait or to read the request's body, and the challenges of those before.
#[derive(Clone, Default)]
struct Progress {
    at: usize,
    challenges: Vec<Vec<u8>>,
}

impl Plugin for MultiAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let (mut methods, mut errors) = (Vec::new(), Vec::new());
        for (at, element) in config.auth_plugins.iter().enumerate() {
            let place = format!("/auth_plugins/{at}");
            match element.as_object() {
                Some(plugins) => match of_element(plugins, cx) {
                    Ok(compiled) => methods.extend(compiled),
                    Err(found) => errors.extend(found.into_iter().map(|error| error.under(&place))),
                },
                None => errors.push(ConfigError::new(place, "wrong type: expected object with a plugin")),
            }
        }
        if errors.is_empty() { Ok(Self { methods: methods.into() }) } else { Err(errors) }
    }

    fn body_need(&self) -> BodyNeed {
        self.methods.iter().map(CompiledPlugin::body_need).collect()
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "title": "work with route or service object",
            "properties": {"auth_plugins": {"type": "array", "minItems": 2}},
            "required": ["auth_plugins"]
        })
    }
}

/// The plugins of one element of `auth_plugins`, usually one.
fn of_element(
    plugins: &Map<String, Value>,
    cx: &CompileContext<'_>,
) -> Result<Vec<CompiledPlugin>, Vec<ConfigError>> {
    let compile = |(name, config): (&String, &Value)| {
        let place = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        let refuse = |message: &str| vec![ConfigError::new(place.as_str(), format!("{name} {message}"))];
        match cx.is_auth(name) {
            None => return Err(refuse("plugin did not found")),
            Some(false) => return Err(refuse("plugin is not supported")),
            Some(true) => {}
        }
        let worded = |error: ConfigError| {
            let message = format!("plugin {name} check schema failed: {}", error.message);
            ConfigError { message, ..error }.under(&place)
        };
        let compiled = cx.compile(name, config);
        let compiled = compiled.map_err(|errors| errors.into_iter().map(worded).collect::<Vec<_>>())?;
        // A plugin that never looks at a request would let everybody in.
        if compiled.hooks().rewrite.is_none() { Err(refuse("plugin is not supported")) } else { Ok(compiled) }
    };
    plugins.iter().map(compile).collect()
}

impl OnRewrite for MultiAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let stopped = exchange.extras.as_ref().and_then(|extras| extras.noted(self.methods.first()?));
        let progress = stopped.cloned().unwrap_or_default();
        authenticate(&self.methods, progress, exchange)
    }
}

/// Tries the methods from `progress` on.
fn authenticate(
    methods: &Arc<[CompiledPlugin]>,
    mut progress: Progress,
    exchange: &mut Exchange<'_>,
) -> Flow {
    while let Some(method) = methods.get(progress.at) {
        match method.rewrite(exchange) {
            Flow::Next => return Flow::Next,
            Flow::Reply(reply) => progress.failed(method, &reply),
            Flow::Answer(answer) => progress.failed(method, &Reply::status(answer.status)),
            // The same method goes on when it has what it waits for.
            flow => {
                if let Some(first) = methods.first() {
                    exchange.extras().note(first, progress.clone());
                }
                let methods = Arc::clone(methods);
                return flow.then(exchange, move |flow, exchange| {
                    let reply = match flow {
                        Flow::Reply(reply) => *reply,
                        Flow::Answer(answer) => Reply::status(answer.status),
                        flow => return flow,
                    };
                    if let Some(method) = methods.get(progress.at) {
                        progress.failed(method, &reply);
                    }
                    authenticate(&methods, progress, exchange)
                });
            }
        }
    }
    let reply = Reply::message(401, "Authorization Failed");
    Flow::reply(
        progress
            .challenges
            .into_iter()
            .fold(reply, |reply, challenge| reply.with_header("WWW-Authenticate", challenge)),
    )
}

impl Progress {
    /// Goes on to the next method after `method` answered with `reply`.
    fn failed(&mut self, method: &CompiledPlugin, reply: &Reply) {
        let why = String::from_utf8_lossy(reply.body.as_deref().unwrap_or_default());
        let (plugin, status) = (&*method.def.name, reply.status);
        tracing::warn!(plugin, status, "failed to authenticate the request: {}", why.trim_end());
        self.challenges.extend(reply.header(b"www-authenticate").map(<[u8]>::to_vec));
        self.at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Hooks, Registry, WholeBody};

    fn registry() -> Registry {
        let scripted = |name: &str, hook: fn(&mut Exchange<'_>) -> Flow| {
            let compile = move |_: Value, _: &CompileContext<'_>| {
                Ok(Hooks { rewrite: Some(Arc::new(Scripted(hook))), ..Hooks::default() })
            };
            PluginDef { auth: true, ..PluginDef::of(name, 1, json!({"type": "object"}), compile) }
        };
        let defs = [
            def(),
            crate::basic_auth::def(),
            crate::key_auth::def(),
            crate::echo::def(),
            scripted("slow-no", |x| x.after(std::time::Duration::from_secs(1), Flow::status(403))),
            scripted("body", |x| match x.request.whole_body(9) {
                WholeBody::Unread => Flow::Body(9),
                _ => Flow::status(401),
            }),
            PluginDef {
                auth: true,
                ..PluginDef::of("blind", 1, json!({"type": "object"}), |_: Value, _: &CompileContext<'_>| {
                    Ok(Hooks::default())
                })
            },
        ];
        Registry::new(defs, Map::new()).expect("valid schemas")
    }

    struct Scripted(fn(&mut Exchange<'_>) -> Flow);

    impl OnRewrite for Scripted {
        fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
            (self.0)(exchange)
        }
    }

    fn chain(registry: &Registry, auth_plugins: &Value) -> Result<Chain, Vec<ConfigError>> {
        testkit::chain(registry, &json!({"multi-auth": {"auth_plugins": auth_plugins}}))
    }

    /// The answer's status and the consumer's name.
    fn run(auth_plugins: &Value, request: &str) -> (u16, String) {
        let registry = registry();
        let chain = chain(&registry, auth_plugins).expect("valid");
        let mut bench = Bench::new(request);
        let foo = ("foo", json!({"basic-auth": {"username": "foo", "password": "bar"}}));
        let one = ("one", json!({"key-auth": {"key": "auth-one"}}));
        bench.consumers = testkit::consumers(&registry, &[foo, one]).expect("valid");
        let mut exchange = bench.exchange();
        let status = testkit::access(&chain, &mut exchange);
        (status, exchange.consumer.map(|consumer| consumer.name.clone()).unwrap_or_default())
    }

    #[test]
    fn one_method_of_several_is_enough() {
        let plain = json!([{"basic-auth": {}}, {"key-auth": {"hide_credentials": true}}]);
        let slow = json!([{"slow-no": {}}, {"basic-auth": {}}, {"slow-no": {}, "key-auth": {}}]);
        for methods in [plain, slow] {
            for (request, status, consumer) in [
                ("GET /\nAuthorization: Basic Zm9vOmJhcg==", 0, "foo"),
                ("GET /\napikey: auth-one", 0, "one"),
                ("GET /\nAuthorization: Basic YmFyOmJhcgo=\napikey: auth-one", 0, "one"),
                ("GET /\nAuthorization: Basic YmFyOmJhcgo=", 401, ""),
                ("GET /\napikey: auth-two", 401, ""),
                ("GET /", 401, ""),
            ] {
                assert_eq!(run(&methods, request), (status, consumer.to_owned()), "{methods} {request}");
            }
        }
    }

    #[test]
    fn a_refusal_names_every_challenge() {
        let registry = registry();
        let chain = chain(&registry, &json!([{"basic-auth": {}}, {"key-auth": {}}])).expect("valid");
        let bench = Bench::new("GET /");
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("refused");
        assert_eq!(
            (reply.status, reply.body),
            (401, Some(b"{\"message\":\"Authorization Failed\"}\n".to_vec()))
        );
        let challenges: Vec<_> =
            reply.headers.iter().map(|(_, value)| String::from_utf8_lossy(value)).collect();
        assert_eq!(challenges, ["Basic realm=\"basic\"", "apikey realm=\"key\""]);
    }

    #[test]
    fn a_method_that_reads_the_body_goes_on_where_it_stopped() {
        let registry = registry();
        let chain =
            chain(&registry, &json!([{"slow-no": {}}, {"body": {}}, {"basic-auth": {}}])).expect("valid");
        let bench = Bench::new("POST /\nContent-Length: 1");
        let mut exchange = bench.exchange();
        let hook = &chain.rewrite[0].hook;
        let Flow::Wait(mut wait) = hook.rewrite(&mut exchange) else { panic!("the first method waits") };
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(resume) = wait.as_mut().poll(&mut cx) else { panic!("no time passes") };
        assert!(matches!(resume(&mut exchange), Flow::Body(9)), "the second wants the body");
        let read = Bench::new("POST /\nContent-Length: 1").with_body("x");
        exchange.request.body = read.exchange().request.body.take();
        let Flow::Reply(reply) = hook.rewrite(&mut exchange) else { panic!("no method is left to wait") };
        assert_eq!(reply.status, 401);
        assert_eq!(bench.services.slept().as_secs(), 1, "the first method ran once");
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (methods, path, message) in [
            (json!([{"basic-auth": {}}]), "/auth_plugins", ""),
            (
                json!([{"basic-auth": {"hide_credentials": "false"}}, {"key-auth": {}}]),
                "/auth_plugins/0/basic-auth/hide_credentials",
                "plugin basic-auth check schema failed: ",
            ),
            (
                json!([{"key-auth": {}}, {"basic-auth": "blah"}]),
                "/auth_plugins/1/basic-auth",
                "plugin basic-auth check schema failed: wrong type: expected object, got string",
            ),
            (json!([{"key-auth": {}}, {"no": {}}]), "/auth_plugins/1/no", "no plugin did not found"),
            (json!([{"key-auth": {}}, {"echo": {}}]), "/auth_plugins/1/echo", "echo plugin is not supported"),
            (
                json!([{"key-auth": {}}, {"blind": {}}]),
                "/auth_plugins/1/blind",
                "blind plugin is not supported",
            ),
            (json!([{"key-auth": {}}, 7]), "/auth_plugins/1", "expected object"),
        ] {
            let errors = chain(&registry(), &methods).expect_err("refused");
            assert!(errors[0].path.starts_with(&format!("/multi-auth{path}")), "{errors:?}");
            assert!(errors[0].message.contains(message), "{errors:?}");
        }
    }

    #[test]
    fn a_disabled_method_still_asks_for_credentials() {
        let methods = json!([{"basic-auth": {"_meta": {"disable": true}}}, {"key-auth": {}}]);
        assert_eq!(run(&methods, "GET /").0, 401);
    }

    #[test]
    fn nesting_has_a_bound() {
        let mut methods = json!([{"basic-auth": {}}, {"key-auth": {}}]);
        for level in 1..=plugin::NESTING_MAX + 1 {
            let found = chain(&registry(), &methods).map(drop);
            assert_eq!(found.is_ok(), level <= plugin::NESTING_MAX, "{level}: {found:?}");
            methods = json!([{"key-auth": {}}, {"multi-auth": {"auth_plugins": methods}}]);
        }
    }
}
