//! Allows or denies consumers by their labels.
//!
//! ## When to use
//! Use it when access depends on a group, team or plan that is recorded as a label of the consumer, or as a claim of
//! a user that an identity provider authenticated.
//!
//! ## Example
//! ```json
//! {
//!     "acl": {
//!         "allow_labels": {
//!             "org": ["apache"],
//!             "project": ["gateway", "tomcat"]
//!         },
//!         "deny_labels": {
//!             "team": ["contractors"]
//!         }
//!     }
//! }
//! ```
//! A consumer that has one of the denied labels is refused; then one that has none of the allowed ones is. A label may hold
//! several values: `a,b`, or `["a", "b"]` as text.
//!
//! ## Differences from APISIX
//! - Of JSONPath in `external_user_label_field` filters and slices are refused.

use crate::status;
use crate::text;
use model::ConfigError;
use model::json_path::JsonPath;
use pcre2::bytes::Regex;
use plugin::{CompileContext, Exchange, ExternalUser, Flow, OnAccess, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Acl>("acl", 2410).on_access().build()
}

/// Labels and their values, of which one is enough.
type Labels = BTreeMap<String, Vec<String>>;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    external_user_label_field: String,
    external_user_label_field_key: Option<String>,
    external_user_label_field_parser: Option<ParserName>,
    #[serde(default)]
    external_user_label_field_separator: String,
    #[serde(default)]
    allow_labels: Option<Labels>,
    #[serde(default)]
    deny_labels: Option<Labels>,
    rejected_code: u64,
    rejected_msg: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ParserName {
    SegmentedText,
    Json,
    Table,
}

/// The compiled form.
pub struct Acl {
    user: UserLabel,
    allow: Option<Labels>,
    deny: Option<Labels>,
    rejected_code: u16,
    rejected_msg: String,
    /// The separator of values where nothing says how they are written.
    comma: Regex,
}

/// Where the label of a user is who is no consumer.
struct UserLabel {
    path: JsonPath,
    /// Whether the path can lead to several places.
    many: bool,
    key: String,
    parser: Option<Parser>,
}

/// How a label's values are written.
enum Parser {
    /// With separators; `None` where these are no regular expression: then there are no values.
    Text(Option<Regex>),
    /// As the text of a JSON array.
    Json,
    /// As an array.
    Table,
}

impl Plugin for Acl {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let field = config.external_user_label_field;
        let written = field.strip_prefix('$').unwrap_or(&field);
        let written = written.strip_prefix('.').filter(|rest| !rest.starts_with('.')).unwrap_or(written);
        let path = JsonPath::parse(written).map_err(|why| {
            let message = format!("invalid external_user_label_field: {why}");
            vec![ConfigError::new("/external_user_label_field", message)]
        })?;
        let parser = config.external_user_label_field_parser.map(|name| match name {
            ParserName::SegmentedText => Parser::Text(separator(&config.external_user_label_field_separator)),
            ParserName::Json => Parser::Json,
            ParserName::Table => Parser::Table,
        });
        if let Some(Parser::Text(None)) = parser {
            tracing::warn!("acl: the separator of labels is no regular expression: nobody has labels");
        }
        let many = written.contains("..") || written.contains(['[', '*']);
        let key = config.external_user_label_field_key.unwrap_or(field);
        let comma = text::regex(r"\s*,\s*", false, "").map_err(|error| vec![error])?;
        Ok(Self {
            user: UserLabel { path, many, key, parser },
            allow: config.allow_labels,
            deny: config.deny_labels,
            rejected_code: status::status(config.rejected_code, "/rejected_code")?,
            rejected_msg: config.rejected_msg.unwrap_or_else(|| "The consumer is forbidden.".to_owned()),
            comma,
        })
    }

    fn schema() -> Value {
        let labels = json!({
            "description": "Labels, each with the values of which one is enough.",
            "type": "object",
            "minProperties": 1,
            "patternProperties": {".*": {"type": "array", "minItems": 1, "items": {"type": "string"}}}
        });
        json!({
            "type": "object",
            "properties": {
                "external_user_label_field": {
                    "description": "Where the label of a user is who is no consumer: a JSONPath.",
                    "type": "string",
                    "default": "groups",
                    "minLength": 1
                },
                "external_user_label_field_key": {
                    "description": "The name of that label; where there is none, the path.",
                    "type": "string",
                    "minLength": 1
                },
                "external_user_label_field_parser": {
                    "description": "How that label's values are written.",
                    "type": "string",
                    "enum": ["segmented_text", "json", "table"]
                },
                "external_user_label_field_separator": {
                    "description": "What stands between them in segmented_text: a regular expression.",
                    "type": "string",
                    "minLength": 1
                },
                "allow_labels": labels,
                "deny_labels": labels,
                "rejected_code": {"type": "integer", "minimum": 200, "default": 403},
                "rejected_msg": {"type": "string"}
            },
            "allOf": [{
                "if": {
                    "required": ["external_user_label_field_parser"],
                    "properties": {"external_user_label_field_parser": {"const": "segmented_text"}}
                },
                "then": {"required": ["external_user_label_field_separator"]}
            }],
            "anyOf": [{"required": ["allow_labels"]}, {"required": ["deny_labels"]}]
        })
    }
}

fn separator(written: &str) -> Option<Regex> {
    text::regex(&format!(r"\s*{written}\s*"), false, "").ok()
}

impl OnAccess for Acl {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let has = |wanted: &Labels| match (exchange.consumer, exchange.extension::<ExternalUser>()) {
            (Some(consumer), _) => wanted.iter().any(|(name, values)| {
                let written = consumer.labels.get(name);
                written.is_some_and(|written| shares(values, &self.unparsed(&written.as_str().into())))
            }),
            (None, Some(user)) => {
                wanted.get(&self.user.key).is_some_and(|values| shares(values, &self.values_of(user)))
            }
            (None, None) => false,
        };
        if exchange.consumer.is_none() && exchange.extension::<ExternalUser>().is_none() {
            return Flow::reply(Reply::message(401, "Missing authentication."));
        }
        if self.deny.as_ref().is_some_and(has) || self.allow.as_ref().is_some_and(|wanted| !has(wanted)) {
            return Flow::reply(Reply::message(self.rejected_code, &self.rejected_msg));
        }
        Flow::Next
    }
}

fn shares(wanted: &[String], values: &[String]) -> bool {
    wanted.iter().any(|wanted| values.contains(wanted))
}

impl Acl {
    /// The values of the label of a user who is no consumer.
    fn values_of(&self, user: &ExternalUser) -> Vec<String> {
        let Some(found) = self.user.path.find(&user.0) else { return Vec::new() };
        let parser = self.user.parser.as_ref();
        let parsed = |value: &Value| match parser {
            Some(parser) => self.parsed(parser, value),
            None => self.unparsed(value),
        };
        match &*found {
            Value::Array(all) if self.user.many && all.len() > 1 => {
                let each =
                    |value: &Value| if value.is_string() { parsed(value) } else { self.unparsed(value) };
                all.iter().flat_map(each).collect()
            }
            Value::Array(all) if self.user.many => all.iter().flat_map(parsed).collect(),
            one => parsed(one),
        }
    }

    fn parsed(&self, parser: &Parser, value: &Value) -> Vec<String> {
        match (parser, value) {
            (Parser::Text(Some(separator)), Value::String(text)) => split(separator, text),
            (Parser::Table, Value::Array(all)) => texts(all),
            (Parser::Json, Value::String(text)) if text.starts_with('[') => {
                serde_json::from_str(text).map(|all: Vec<Value>| texts(&all)).unwrap_or_default()
            }
            _ => {
                tracing::warn!("acl: a label of a user is not written as its parser expects");
                Vec::new()
            }
        }
    }

    /// The values of a label that may be written in any way.
    fn unparsed(&self, value: &Value) -> Vec<String> {
        match value {
            Value::Array(all) => texts(all),
            Value::String(text) if text.starts_with('[') => self.parsed(&Parser::Json, value),
            Value::String(text) => split(&self.comma, text),
            _ => Vec::new(),
        }
    }
}

fn texts(all: &[Value]) -> Vec<String> {
    all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The parts of `text` between matches. What takes too long to match is one part.
fn split(separator: &Regex, text: &str) -> Vec<String> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for found in separator.find_iter(text.as_bytes()) {
        let Ok(found) = found else { break };
        if found.end() > found.start() {
            parts.extend(text.get(start..found.start()).map(str::to_owned));
            start = found.end();
        }
    }
    parts.extend(text.get(start..).map(str::to_owned));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{ConsumerInfo, Registry};

    fn chain(config: &Value) -> Result<plugin::Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({ "acl": config }))
    }

    #[test]
    fn consumers_are_let_in_by_their_labels() {
        let allow = json!({"allow_labels": {"org": ["apache"], "project": ["gateway", "tomcat"]}});
        let deny = json!({"deny_labels": {"org": ["apache"]}, "rejected_code": 429, "rejected_msg": "no"});
        let both = json!({"allow_labels": {"org": ["apache"]}, "deny_labels": {"project": ["web"]}});
        for (config, labels, status) in [
            (&allow, &[("org", "apache")][..], 0),
            (&allow, &[("project", "kafka, tomcat")], 0),
            (&allow, &[("project", r#"["kafka", "gateway"]"#)], 0),
            (&allow, &[("project", "gateway2")], 403),
            (&allow, &[("project", "[gateway]")], 403),
            (&allow, &[("team", "apache")], 403),
            (&allow, &[], 403),
            (&deny, &[("org", "apache,other")], 429),
            (&deny, &[("org", "other")], 0),
            (&deny, &[], 0),
            (&both, &[("org", "apache"), ("project", "web,gateway")], 403),
            (&both, &[("org", "apache"), ("project", "gateway")], 0),
        ] {
            let labels =
                labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let jack = ConsumerInfo { labels, ..ConsumerInfo::default() };
            let bench = Bench::new("GET /");
            let mut exchange = bench.exchange();
            exchange.consumer = Some(&jack);
            let chain = chain(config).expect("valid");
            assert_eq!(testkit::access(&chain, &mut exchange), status, "{config} {jack:?}");
        }
        let bench = Bench::new("GET /");
        let reply = testkit::request(&chain(&allow).expect("valid"), &mut bench.exchange()).expect("refused");
        assert_eq!(
            (reply.status, reply.body.as_deref()),
            (401, Some(&b"{\"message\":\"Missing authentication.\"}\n"[..]))
        );
    }

    #[test]
    fn users_of_identity_providers_are_let_in_by_what_these_say() {
        let user = json!({"team": ["infra"], "orgs": {"a": {"team": "cloud|infra"}, "b": {"team": "qa"}}, "text": "[\"infra\"]"});
        let allow = |more: Value| {
            let mut config =
                json!({"allow_labels": {"team": ["infra"]}, "external_user_label_field_key": "team"});
            config.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            config
        };
        for (config, status) in [
            (json!({"allow_labels": {"team": ["infra"]}, "external_user_label_field": "team"}), 0),
            (json!({"deny_labels": {"team": ["infra"]}, "external_user_label_field": "team"}), 403),
            (json!({"allow_labels": {"groups": ["infra"]}}), 403),
            (
                allow(
                    json!({"external_user_label_field": "$.team", "external_user_label_field_parser": "table"}),
                ),
                0,
            ),
            (
                allow(
                    json!({"external_user_label_field": "$.team", "external_user_label_field_parser": "json"}),
                ),
                403,
            ),
            (
                allow(
                    json!({"external_user_label_field": "$.text", "external_user_label_field_parser": "json"}),
                ),
                0,
            ),
            (allow(json!({"external_user_label_field": "$.text"})), 0),
            (
                allow(json!({
                    "external_user_label_field": "$.orgs..team", "external_user_label_field_parser": "segmented_text",
                    "external_user_label_field_separator": "\\|"
                })),
                0,
            ),
            (
                allow(json!({
                    "external_user_label_field": "$.orgs..team", "external_user_label_field_parser": "segmented_text",
                    "external_user_label_field_separator": "(x"
                })),
                403,
            ),
            (allow(json!({"external_user_label_field": "$.orgs..team"})), 403),
        ] {
            let bench = Bench::new("GET /");
            let mut exchange = bench.exchange();
            exchange.extensions().insert(ExternalUser(user.clone()));
            let chain = chain(&config).expect("valid");
            assert_eq!(testkit::access(&chain, &mut exchange), status, "{config}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for config in [
            json!({}),
            json!({"allow_labels": {}}),
            json!({"allow_labels": {"a": []}}),
            json!({"allow_labels": {"a": ["b"]}, "rejected_code": 100}),
            json!({"allow_labels": {"a": ["b"]}, "external_user_label_field": "$..([invalid"}),
            json!({"allow_labels": {"a": ["b"]}, "external_user_label_field_parser": "segmented_text"}),
            json!({"allow_labels": {"a": ["b"]}, "external_user_label_field_parser": "xml"}),
        ] {
            assert!(chain(&config).is_err(), "{config}");
        }
    }
}
