//! Runs an action for requests that match a condition: rejects them, or applies a limit of their own.
//!
//! ## When to use
//! Use it to limit or reject some of a route's requests, for example with a quota per kind of consumer, or a lower
//! one for an expensive query. The first rule that matches decides; a rule without `case` matches every request.
//!
//! ## Example
//! Requests for `/internal` are rejected; all others are limited to five in 30 seconds from each address:
//! ```json
//! {
//!     "workflow": {
//!         "rules": [
//!             {
//!                 "case": [["uri", "==", "/internal"]],
//!                 "actions": [["return", {"code": 403}]]
//!             },
//!             {
//!                 "actions": [["limit-count", {"count": 5, "time_window": 30, "rejected_code": 429}]]
//!             }
//!         ]
//!     }
//! }
//! ```
//! An action is `return` with a `code`, or `limit-count` or `limit-conn` with that plugin's configuration. Of several
//! actions the first runs. Where the same plugin is also configured on the route or in a global rule, that configuration
//! does not count the request again.
//!
//! ## Differences from APISIX
//! - `code` is from 200 to 599: a code below is no final response. A rule without an action, and an action without its
//!   configuration, are refused with the configuration instead of failing requests.
//! - A `case` that is not a valid expression is rejected, not ignored.

use model::ConfigError;
use model::schema::Validator;
use model::var::BodyNeed;
use plugin::{CompileContext, CompiledPlugin, Exchange, Flow, OnAccess, OnLog, Plugin, PluginDef, Reply};
use router::Expr;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Workflow>("workflow", 1006).on_access().on_log().build()
}

/// The action that is no plugin.
const RETURN: &str = "return";

/// The user's configuration.
#[derive(Debug, Deserialize)]
pub struct Config {
    rules: Vec<RuleConfig>,
}

#[derive(Debug, Deserialize)]
struct RuleConfig {
    case: Option<Value>,
    /// Each a name and a configuration.
    actions: Vec<Vec<Value>>,
}

/// The rules, in the order in which they are asked.
pub struct Workflow {
    rules: Box<[Rule]>,
}

struct Rule {
    case: Option<Expr>,
    action: Action,
}

enum Action {
    Return(u16),
    Plugin(Box<CompiledPlugin>),
}

/// The rule that matched a request, noted for the log phase.
struct Matched(usize);

impl Plugin for Workflow {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for (at, rule) in config.rules.iter().enumerate() {
            match rule.compile(cx) {
                Ok(rule) => rules.push(rule),
                Err(found) => {
                    errors.extend(found.into_iter().map(|error| error.under(&format!("/rules/{at}"))));
                }
            }
        }
        if errors.is_empty() { Ok(Self { rules: rules.into() }) } else { Err(errors) }
    }

    fn body_need(&self) -> BodyNeed {
        let of_rule = |rule: &Rule| {
            let case = rule.case.as_ref().map(Expr::body_need).unwrap_or_default();
            match &rule.action {
                Action::Return(_) => case,
                Action::Plugin(plugin) => case.or(plugin.body_need()),
            }
        };
        self.rules.iter().map(of_rule).collect()
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "rules": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "case": {
                                "type": "array",
                                "items": {"anyOf": [{"type": "array"}, {"type": "string"}]},
                                "minItems": 1
                            },
                            "actions": {"type": "array", "items": {"type": "array", "minItems": 1}}
                        },
                        "required": ["actions"]
                    }
                }
            },
            "required": ["rules"]
        })
    }
}

impl RuleConfig {
    fn compile(&self, cx: &CompileContext<'_>) -> Result<Rule, Vec<ConfigError>> {
        let worded = |error: ConfigError| {
            let message = format!("failed to validate the 'case' expression: {}", error.message);
            ConfigError { message, ..error }.under("/case")
        };
        let case = self.case.as_ref().map(Expr::compile).transpose();
        let case = case.map_err(|errors| errors.into_iter().map(worded).collect::<Vec<_>>())?;
        let mut first = None;
        for (at, action) in self.actions.iter().enumerate() {
            let compiled = Action::compile(action, cx);
            let place = format!("/actions/{at}");
            let compiled =
                compiled.map_err(|errors| errors.into_iter().map(|e| e.under(&place)).collect::<Vec<_>>())?;
            first.get_or_insert(compiled);
        }
        let action = first.ok_or_else(|| vec![ConfigError::new("/actions", "a rule needs an action")])?;
        Ok(Rule { case, action })
    }
}

impl Action {
    fn compile(written: &[Value], cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let name = written.first().and_then(Value::as_str).unwrap_or_default();
        if name != RETURN && !cx.is_action(name) {
            let name = written.first().unwrap_or(&Value::Null);
            let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
            return Err(vec![ConfigError::new("/0", format!("unsupported action: {name}"))]);
        }
        let worded = |error: ConfigError| {
            let message = format!("failed to validate the '{name}' action: {}", error.message);
            ConfigError { message, ..error }.under("/1")
        };
        let Some(config) = written.get(1).filter(|config| config.is_object()) else {
            return Err(vec![worded(ConfigError::new("", "its configuration is missing"))]);
        };
        let compiled = if name == RETURN { code(config) } else { action(name, config, cx) };
        compiled.map_err(|errors| errors.into_iter().map(worded).collect())
    }
}

fn action(name: &str, config: &Value, cx: &CompileContext<'_>) -> Result<Action, Vec<ConfigError>> {
    // A rule is none of the places whose counts a group adds up.
    if name == "limit-count" && config.get("group").is_some() {
        return Err(vec![ConfigError::new("/group", "group is not supported")]);
    }
    Ok(Action::Plugin(Box::new(cx.compile(name, config)?)))
}

/// What `return` takes; the range has a message of its own.
static CODE: LazyLock<Validator> = LazyLock::new(|| {
    Validator::compile(&json!({"type": "object", "properties": {"code": {"type": "integer"}}}))
        .expect("it is written above")
});

fn code(config: &Value) -> Result<Action, Vec<ConfigError>> {
    let Some(code) = config.get("code") else {
        return Err(vec![ConfigError::new("", "property \"code\" is required")]);
    };
    let report = CODE.check(config);
    if let Some(line) = report.first {
        return Err(vec![ConfigError::new("/code", line)]);
    }
    let status = code.as_u64().and_then(|code| u16::try_from(code).ok());
    match status.filter(|status| (200..=599).contains(status)) {
        Some(status) => Ok(Action::Return(status)),
        None => Err(vec![ConfigError::new(
            "/code",
            format!("property \"code\" validation failed: expected an integer from 200 to 599, got {code}"),
        )]),
    }
}

impl OnAccess for Workflow {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let matches = |rule: &Rule| rule.case.as_ref().is_none_or(|case| case.eval(exchange));
        let Some(at) = self.rules.iter().position(matches) else { return Flow::Next };
        match &self.rules[at].action {
            Action::Return(code) => Flow::reply(Reply::error(*code, "rejected by workflow")),
            Action::Plugin(plugin) => {
                exchange.skip(&plugin.def.name);
                if plugin.hooks().log.is_some() {
                    exchange.extras().note(self, Matched(at));
                }
                plugin.access(exchange)
            }
        }
    }
}

impl OnLog for Workflow {
    fn log(&self, exchange: &Exchange<'_>) {
        // None where the exchange ended before the access phase.
        let matched: Option<&Matched> = exchange.extras.as_ref().and_then(|extras| extras.noted(self));
        let rule = matched.and_then(|matched| self.rules.get(matched.0));
        if let Some(Rule { action: Action::Plugin(plugin), .. }) = rule {
            plugin.log(exchange);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};

    fn chain(plugins: &Value) -> Result<Chain, Vec<ConfigError>> {
        let defs = [def(), crate::limit_count::def(), crate::limit_conn::def()];
        testkit::chain(&Registry::new(defs, serde_json::Map::new()).expect("valid schemas"), plugins)
    }

    fn workflow(rules: &Value) -> Result<Chain, Vec<ConfigError>> {
        chain(&json!({"workflow": {"rules": rules}}))
    }

    fn statuses<const N: usize>(chain: &Chain, requests: [&str; N]) -> [u16; N] {
        requests.map(|request| testkit::access(chain, &mut Bench::new(request).exchange()))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = json!([
            {"case": [["uri", "==", "/a"]], "actions": [["return", {"code": 403}], ["return", {"code": 404}]]},
            {"case": ["OR", ["arg_x", "==", "1"], ["arg_x", "==", "2"]], "actions": [["return", {"code": 200}]]},
            {"case": [["uri", "==", "/all"]], "actions": [["return", {"code": 418}]]}
        ]);
        let chain = workflow(&rules).expect("valid");
        let requests = ["GET /a?x=1", "GET /?x=2", "GET /all", "GET /"];
        assert_eq!(statuses(&chain, requests), [403, 200, 418, 0]);
        let reply = testkit::request(&chain, &mut Bench::new("GET /a").exchange()).expect("refused");
        assert_eq!(reply.body.as_deref(), Some(&b"{\"error_msg\":\"rejected by workflow\"}\n"[..]));
    }

    #[test]
    fn two_rules_count_apart_though_they_say_the_same() {
        let limit = json!([["limit-count", {"count": 1, "time_window": 60, "rejected_code": 429}]]);
        let rules = json!([{"case": [["uri", "==", "/a"]], "actions": limit}, {"actions": limit}]);
        let chain = workflow(&rules).expect("valid");
        assert_eq!(statuses(&chain, ["GET /a", "GET /b", "GET /a", "GET /c"]), [0, 0, 429, 429]);
    }

    #[test]
    fn a_plugin_that_ran_as_an_action_does_not_run_again() {
        let limit = |count: u64| json!({"count": count, "time_window": 60, "rejected_code": 429});
        let rules = json!([{"case": [["uri", "==", "/a"]], "actions": [["limit-count", limit(3)]]}]);
        let chain = chain(&json!({"workflow": {"rules": rules}, "limit-count": limit(1)})).expect("valid");
        let requests = ["GET /a", "GET /a", "GET /b", "GET /b", "GET /a", "GET /a"];
        assert_eq!(statuses(&chain, requests), [0, 0, 0, 429, 0, 429]);
    }

    #[test]
    fn a_connection_is_counted_until_its_exchange_ends() {
        let limit = json!({"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"});
        let chain = workflow(&json!([{"actions": [["limit-conn", limit]]}])).expect("valid");
        let (first, second) = (Bench::new("GET /"), Bench::new("GET /"));
        let mut first = first.exchange();
        assert_eq!(testkit::access(&chain, &mut first), 0);
        assert_eq!(testkit::access(&chain, &mut second.exchange()), 503);
        drop(first);
        assert_eq!(testkit::access(&chain, &mut second.exchange()), 0);
    }

    #[test]
    fn the_workflows_meta_counts_and_not_its_actions() {
        let rules = json!([{"actions": [["return", {"code": 403}]]}]);
        let filtered = json!({"rules": rules, "_meta": {"filter": [["uri", "==", "/a"]]}});
        let filtered = chain(&json!({ "workflow": filtered })).expect("valid");
        assert_eq!(statuses(&filtered, ["GET /a", "GET /b"]), [403, 0]);
        let limit = json!({"count": 1, "time_window": 60, "_meta": {"disable": true}});
        let chain = workflow(&json!([{"actions": [["limit-count", limit]]}])).expect("valid");
        assert_eq!(statuses(&chain, ["GET /", "GET /"]), [0, 503]);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let limit = json!({"count": -1, "time_window": 60});
        for (rules, path, message) in [
            (json!([{"actions": [["fly", {}]]}]), "/rules/0/actions/0/0", "unsupported action: fly"),
            (
                json!([{"actions": [["workflow", {}]]}]),
                "/rules/0/actions/0/0",
                "unsupported action: workflow",
            ),
            (json!([{"actions": [[7]]}]), "/rules/0/actions/0/0", "unsupported action: 7"),
            (json!([{"actions": []}]), "/rules/0/actions", "a rule needs an action"),
            (
                json!([{"actions": [["return", {"code": 403}]]}, {"actions": [["return", {}]]}]),
                "/rules/1/actions/0/1",
                "failed to validate the 'return' action: property \"code\" is required",
            ),
            (
                json!([{"actions": [["return", {"code": 99}]]}]),
                "/rules/0/actions/0/1/code",
                "from 200 to 599",
            ),
            (
                json!([{"actions": [["return", {"code": "403"}]]}]),
                "/rules/0/actions/0/1/code",
                "property \"code\" validation failed: wrong type: expected integer, got string",
            ),
            (json!([{"actions": [["limit-count"]]}]), "/rules/0/actions/0/1", "configuration is missing"),
            (
                json!([{"actions": [["limit-count", {"count": 1, "time_window": 60, "group": "a"}]]}]),
                "/rules/0/actions/0/1/group",
                "failed to validate the 'limit-count' action: group is not supported",
            ),
            (
                json!([{"actions": [["limit-count", limit]]}]),
                "/rules/0/actions/0/1",
                "failed to validate the 'limit-count' action: ",
            ),
            (
                json!([{"case": [["a", "??", 1]], "actions": [["return", {"code": 403}]]}]),
                "/rules/0/case",
                "failed to validate the 'case' expression: ",
            ),
        ] {
            let errors = workflow(&rules).expect_err("refused");
            assert!(errors[0].path.starts_with(&format!("/workflow{path}")), "{errors:?}");
            assert!(errors[0].message.contains(message), "{errors:?}");
        }
    }
}
