//! Implements cross-origin resource sharing (CORS): answers preflight requests and tells browsers which origins may
//! read responses.
//!
//! ## When to use
//! Use it for an API that web pages of another origin call.
//!
//! ## Example
//! ```json
//! {
//!     "cors": {
//!         "allow_origins": "https://app.example.com,https://admin.example.com",
//!         "allow_methods": "GET,POST",
//!         "allow_headers": "Authorization,Content-Type",
//!         "allow_credential": true,
//!         "max_age": 600
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - A regular expression that exceeds the backtracking limit does not match.
//! - `Vary: Origin` is sent whenever the response depends on the origin, also with `allow_origins_by_regex`,
//!   `allow_origins_by_metadata` and `timing_allow_origins`.

use crate::text;
use model::ConfigError;
use pcre2::bytes::Regex;
use plugin::{
    CompileContext, Exchange, Flow, HeaderEdits, OnResponse, OnRewrite, Plugin, PluginDef, Reply,
    UpstreamResponse,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Cors>("cors", 4000).on_rewrite().on_response().build()
}

/// What `**` stands for in `allow_methods`.
const ALL_METHODS: &str = "GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE";

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    allow_origins: String,
    allow_methods: String,
    allow_headers: String,
    expose_headers: Option<String>,
    max_age: i64,
    allow_credential: bool,
    allow_origins_by_regex: Option<Vec<String>>,
    allow_origins_by_metadata: Option<Vec<String>>,
    timing_allow_origins: Option<String>,
    timing_allow_origins_by_regex: Option<Vec<String>>,
}

/// The compiled form.
pub struct Cors {
    /// The configuration's own, which the metadata's stand above.
    own: Origins,
    by_metadata: Option<Vec<Origins>>,
    /// Whether the default of `allow_origins` counts beside the metadata's: not where that is any origin.
    own_counts: bool,
    timing: Option<Origins>,
    allow_methods: String,
    /// `None`: those that the request asks about.
    allow_headers: Option<String>,
    expose_headers: Option<String>,
    max_age: String,
    allow_credential: bool,
}

/// Which origins are allowed.
enum Origins {
    /// `*`
    Any,
    /// `**`: any, and it is told its own name.
    AnyNamed,
    Listed(Vec<String>),
    Matching(Vec<Regex>),
}

impl Plugin for Cors {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let texts = [&config.allow_origins, &config.allow_methods, &config.allow_headers];
        let optional = [&config.expose_headers, &config.timing_allow_origins];
        let any = texts.into_iter().chain(optional.into_iter().flatten()).any(|text| text == "*");
        if config.allow_credential && any {
            let message = "you can not set '*' for other option when 'allow_credential' is true";
            return Err(vec![ConfigError::new("/allow_credential", message)]);
        }
        let patterns = |patterns: Option<&Vec<String>>, path| {
            patterns.map(|patterns| Origins::matching(patterns, path)).transpose()
        };
        let own = patterns(config.allow_origins_by_regex.as_ref(), "/allow_origins_by_regex")?;
        let timing =
            patterns(config.timing_allow_origins_by_regex.as_ref(), "/timing_allow_origins_by_regex")?;
        let named = cx.metadata.and_then(|metadata| metadata.get("allow_origins"));
        let of_name = |name: &String| named?.get(name)?.as_str().map(Origins::parse);
        Ok(Self {
            own: own.unwrap_or_else(|| Origins::parse(&config.allow_origins)),
            by_metadata: config
                .allow_origins_by_metadata
                .map(|names| names.iter().filter_map(of_name).collect()),
            own_counts: config.allow_origins != "*",
            timing: timing.or_else(|| config.timing_allow_origins.as_deref().map(Origins::parse)),
            allow_methods: match &*config.allow_methods {
                "**" => ALL_METHODS.to_owned(),
                _ => config.allow_methods,
            },
            allow_headers: (config.allow_headers != "**").then_some(config.allow_headers),
            expose_headers: config.expose_headers.filter(|names| !names.is_empty()),
            max_age: config.max_age.to_string(),
            allow_credential: config.allow_credential,
        })
    }

    fn schema() -> Value {
        let list = json!({
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 4096},
            "minItems": 1,
            "uniqueItems": true
        });
        json!({
            "type": "object",
            "properties": {
                "allow_origins": {
                    "description": "Origins with commas between them; `*` is any, `**` any even with credentials.",
                    "type": "string",
                    "pattern": ORIGINS,
                    "default": "*"
                },
                "allow_methods": {
                    "description": "Methods with commas between them; `*` and `**` as with origins.",
                    "type": "string",
                    "default": "*"
                },
                "allow_headers": {
                    "description": "Fields that requests may have; `**` allows those asked for.",
                    "type": "string",
                    "default": "*"
                },
                "expose_headers": {
                    "description": "Fields of responses that pages may read.",
                    "type": "string"
                },
                "max_age": {
                    "description": "Seconds for which browsers may remember the answer; -1: not at all.",
                    "type": "integer",
                    "default": 5
                },
                "allow_credential": {
                    "description": "Whether requests may carry credentials; no option may be `*` then.",
                    "type": "boolean",
                    "default": false
                },
                "allow_origins_by_regex": list,
                "allow_origins_by_metadata": list,
                "timing_allow_origins": {
                    "description": "Origins that may read how long requests took.",
                    "type": "string",
                    "pattern": ORIGINS
                },
                "timing_allow_origins_by_regex": list
            }
        })
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "allow_origins": {
                    "type": "object",
                    "additionalProperties": {"type": "string", "pattern": ORIGINS}
                }
            }
        }))
    }
}

/// What a list of origins looks like.
const ORIGINS: &str = r"^(\*|\*\*|null|\w+://[^,]+(,\w+://[^,]+)*)$";

impl Origins {
    fn parse(text: &str) -> Self {
        match text {
            "*" => Self::Any,
            "**" => Self::AnyNamed,
            list => Self::Listed(list.split(',').map(str::to_owned).collect()),
        }
    }

    fn matching(patterns: &[String], path: &str) -> Result<Self, Vec<ConfigError>> {
        let compile = |(at, pattern): (usize, &String)| text::regex(pattern, false, &format!("{path}/{at}"));
        let compiled: Result<_, _> = patterns.iter().enumerate().map(compile).collect();
        compiled.map(Self::Matching).map_err(|error| vec![error])
    }

    /// What a request from `origin` is told is allowed; `None` where it isn't.
    fn answer<'o>(&self, origin: Option<&'o [u8]>) -> Option<&'o [u8]> {
        match self {
            Self::Any => Some(b"*"),
            Self::AnyNamed => Some(origin.unwrap_or(b"*")),
            Self::Listed(all) => origin.filter(|origin| all.iter().any(|one| one.as_bytes() == *origin)),
            Self::Matching(all) => {
                origin.filter(|origin| all.iter().any(|regex| regex.is_match(origin).unwrap_or(false)))
            }
        }
    }
}

impl Cors {
    /// What a request from `origin` is told is allowed; `None` where it isn't.
    fn answer<'o>(&self, origin: Option<&'o [u8]>) -> Option<&'o [u8]> {
        let Some(by_metadata) = &self.by_metadata else { return self.own.answer(origin) };
        // Whom the metadata allows is told its own name. The default of `allow_origins` doesn't count beside it.
        let named = by_metadata.iter().any(|origins| origins.answer(origin).is_some());
        origin.filter(|_| named).or_else(|| if self.own_counts { self.own.answer(origin) } else { None })
    }

    /// Whether the response depends on the origin: caches have to keep one for each (RFC 9110 section 12.5.5), those for
    /// origins that are not allowed among them.
    fn varies(&self) -> bool {
        let depends = |origins: &Origins| !matches!(origins, Origins::Any);
        self.by_metadata.is_some() || depends(&self.own) || self.timing.as_ref().is_some_and(depends)
    }

    fn write(&self, origin: &[u8], asked: Option<&[u8]>, edits: &mut HeaderEdits) {
        edits.set("Access-Control-Allow-Origin", origin);
        edits.set("Access-Control-Allow-Methods", &self.allow_methods);
        edits.set("Access-Control-Max-Age", &self.max_age);
        if let Some(names) = &self.expose_headers {
            edits.set("Access-Control-Expose-Headers", names);
        }
        match self.allow_headers.as_ref().map(String::as_bytes).or(asked) {
            Some(names) => edits.set("Access-Control-Allow-Headers", names),
            None => edits.remove("Access-Control-Allow-Headers"),
        }
        if self.allow_credential {
            edits.set("Access-Control-Allow-Credentials", "true");
        }
    }
}

impl OnRewrite for Cors {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        if exchange.request.method() == b"OPTIONS" { Flow::reply(Reply::text(200, "")) } else { Flow::Next }
    }
}

impl OnResponse for Cors {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        // The client's own, whatever plugins made of it for the upstream.
        let origin = exchange.request.view.header(b"origin");
        if self.varies() {
            exchange.reply_headers.append("Vary", "Origin");
        }
        if let Some(allowed) = self.answer(origin) {
            let asked = exchange.request.header(b"access-control-request-headers");
            self.write(allowed, asked, exchange.reply_headers);
        }
        if let Some(allowed) = self.timing.as_ref().and_then(|timing| timing.answer(origin)) {
            exchange.reply_headers.set("Timing-Allow-Origin", allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Ingredients, Parent, Registry};

    /// The lines that a response to `request` gets.
    fn lines(config: &Value, metadata: Option<&Value>, request: &str) -> String {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let parent = Parent { resource_key: "/routes/1", config_version: 1 };
        let ingredients = Ingredients { metadata, definitions: None };
        let chain =
            Chain::new(vec![registry.compile_one("cors", config, ingredients, parent).expect("valid")]);
        let bench = Bench::new(request);
        let mut exchange = bench.exchange();
        testkit::response(&chain, &mut exchange, 200);
        testkit::lines(exchange.reply_headers)
    }

    #[test]
    fn origins_are_told_what_they_may() {
        let (one, list) =
            (json!({"allow_origins": "http://a.com"}), json!({"allow_origins": "http://a.com,http://b.com"}));
        let regex = json!({"allow_origins": "http://c.com", "allow_origins_by_regex": [".*\\.test.com$"]});
        let (any, forced) = (json!({}), json!({"allow_origins": "**"}));
        let metadata = json!({"allow_origins": {"k": "http://m.com,http://n.com", "all": "*"}});
        let by_metadata = json!({"allow_origins_by_metadata": ["k", "none"]});
        let both = json!({"allow_origins": "http://a.com", "allow_origins_by_metadata": ["k"]});
        for (config, origin, expected) in [
            (&any, "http://a.com", Some("*")),
            (&forced, "http://a.com", Some("http://a.com")),
            (&one, "http://a.com", Some("http://a.com")),
            (&one, "http://b.com", None),
            (&list, "http://b.com", Some("http://b.com")),
            (&list, "http://c.com", None),
            (&regex, "http://x.test.com", Some("http://x.test.com")),
            (&regex, "http://c.com", None),
            (&by_metadata, "http://n.com", Some("http://n.com")),
            (&by_metadata, "http://a.com", None),
            (&both, "http://a.com", Some("http://a.com")),
            (&both, "http://m.com", Some("http://m.com")),
        ] {
            let got = lines(config, Some(&metadata), &format!("GET /\nOrigin: {origin}"));
            let line = expected.map(|origin| format!("Access-Control-Allow-Origin: {origin}\r\n"));
            assert_eq!(line.is_some(), got.contains("Access-Control-"), "{config} {origin}: {got}");
            assert!(line.is_none_or(|line| got.contains(&line)), "{config} {origin}: {got}");
            assert_eq!(got.contains("Vary: Origin\r\n"), config != &any, "{config} {origin}");
        }
        let regex_alone = json!({"allow_origins_by_regex": [".*\\.test.com$"]});
        let timing = json!({"timing_allow_origins": "http://a.com"});
        for config in [&regex_alone, &timing] {
            for origin in ["http://x.test.com", "http://evil.com"] {
                let got = lines(config, None, &format!("GET /\nOrigin: {origin}"));
                assert!(got.contains("Vary: Origin\r\n"), "{config} {origin}: {got}");
            }
        }
        assert_eq!(lines(&list, None, "GET /"), "Vary: Origin\r\n");
        assert!(lines(&forced, None, "GET /").contains("Allow-Origin: *\r\n"));
    }

    #[test]
    fn all_that_a_browser_asks_is_answered() {
        let config = json!({
            "allow_origins": "**", "allow_methods": "**", "allow_headers": "**", "expose_headers": "E",
            "max_age": 50, "allow_credential": true, "timing_allow_origins": "http://a.com"
        });
        let got = lines(&config, None, "GET /\nOrigin: http://a.com\nAccess-Control-Request-Headers: X-A");
        let expected = "Vary: Origin\r\nAccess-Control-Allow-Origin: http://a.com\r\n\
            Access-Control-Allow-Methods: GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE\r\n\
            Access-Control-Max-Age: 50\r\nAccess-Control-Expose-Headers: E\r\n\
            Access-Control-Allow-Headers: X-A\r\nAccess-Control-Allow-Credentials: true\r\n\
            Timing-Allow-Origin: http://a.com\r\n";
        assert_eq!(got, expected);
        let timing = json!({"timing_allow_origins_by_regex": ["\\.b\\.com$"]});
        assert!(
            lines(&timing, None, "GET /\nOrigin: http://a.b.com")
                .contains("Timing-Allow-Origin: http://a.b.com\r\n")
        );
        assert!(!lines(&timing, None, "GET /\nOrigin: http://a.com").contains("Timing-"));
    }

    #[test]
    fn preflights_are_answered_and_mistakes_named() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, &json!({"cors": {}})).expect("valid");
        assert_eq!(testkit::access(&chain, &mut Bench::new("OPTIONS /").exchange()), 200);
        assert_eq!(testkit::access(&chain, &mut Bench::new("GET /").exchange()), 0);
        for (config, path) in [
            (json!({"allow_origins": "a.com"}), "/cors/allow_origins"),
            (json!({"allow_credential": true}), "/cors/allow_credential"),
            (json!({"allow_origins_by_regex": ["("]}), "/cors/allow_origins_by_regex/0"),
        ] {
            let errors = testkit::chain(&registry, &json!({"cors": config})).expect_err("refused");
            assert_eq!(errors[0].path, path, "{config}");
        }
    }
}
