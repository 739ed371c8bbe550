//! Replaces the gateway's own 404, 500, 502 and 503 pages.
//!
//! ## When to use
//! Use it to show the same error pages for the gateway as for your services. Responses of upstreams are not changed.
//!
//! ## Example
//! In a global rule, or in a resource:
//! ```json
//! {
//!     "error-page": {}
//! }
//! ```
//! The pages are the plugin's metadata: `{"enable": true, "error_404": {"body": "<h1>Not here</h1>", "content_type":
//! "text/html"}}`. Without `enable` in the metadata, and for statuses that it does not name, the default pages are used.
//!
//! ## Differences from APISIX
//! - A page without a body is the gateway's default page.

use model::ConfigError;
use plugin::{
    CompileContext, Exchange, OnResponse, Plugin, PluginDef, Replaced, ResponseSource, UpstreamResponse,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ErrorPage>("error-page", 450).on_response().build()
}

/// The statuses that may have pages.
const STATUSES: [u16; 4] = [404, 500, 502, 503];

/// What a user writes: nothing. The pages are the metadata's.
#[derive(Debug, Deserialize)]
pub struct Config {}

/// The compiled form.
pub struct ErrorPage {
    pages: Vec<Page>,
}

struct Page {
    status: u16,
    content_type: String,
    body: Vec<u8>,
}

impl Plugin for ErrorPage {
    type Config = Config;

    fn compile(_: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let metadata = cx.metadata.filter(|metadata| metadata["enable"] == true);
        let page = |status: u16| {
            let written = metadata?.get(format!("error_{status}"))?;
            let body = written["body"].as_str().filter(|body| !body.is_empty())?;
            let content_type = written["content_type"].as_str().unwrap_or("text/html").to_owned();
            Some(Page { status, content_type, body: body.into() })
        };
        Ok(Self { pages: STATUSES.into_iter().filter_map(page).collect() })
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }

    fn metadata_schema() -> Option<Value> {
        let page = json!({
            "type": "object",
            "properties": {
                "body": {"description": "The page.", "type": "string"},
                "content_type": {"description": "Its type.", "type": "string", "default": "text/html"}
            }
        });
        let mut properties = json!({
            "enable": {"description": "Whether the pages are used.", "type": "boolean", "default": false}
        });
        for status in STATUSES {
            properties[format!("error_{status}")] = page.clone();
        }
        Some(json!({"type": "object", "properties": properties}))
    }
}

impl OnResponse for ErrorPage {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        if exchange.source == ResponseSource::Upstream {
            return;
        }
        if let Some(page) = self.pages.iter().find(|page| page.status == exchange.status) {
            exchange.reply_headers.set("Content-Type", &page.content_type);
            exchange.reply_headers.remove("Content-Encoding");
            exchange.extras().body_filters.push(Replaced(page.body.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Ingredients, Parent, Registry};

    fn chain(metadata: Option<&Value>) -> Chain {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let ingredients = Ingredients { metadata, definitions: None };
        let parent = Parent { resource_key: "/global_rules/1", config_version: 1 };
        let compiled = registry.compile_one("error-page", &json!({}), ingredients, parent);
        Chain::new(vec![compiled.expect("a valid configuration")])
    }

    #[test]
    fn pages_are_for_the_gateways_own_errors() {
        let on = json!({
            "enable": true,
            "error_404": {"body": "not here"},
            "error_500": {"body": "{}", "content_type": "application/json"},
            "error_502": {"content_type": "text/plain"},
            "error_405": {"body": "unknown to the plugin"}
        });
        let off = json!({"error_404": {"body": "not here"}});
        let html = "Content-Type: text/html\r\n";
        for (metadata, status, source, lines, body) in [
            (Some(&on), 404, ResponseSource::Apisix, html, "not here"),
            (Some(&on), 404, ResponseSource::Nginx, html, "not here"),
            (Some(&on), 500, ResponseSource::Apisix, "Content-Type: application/json\r\n", "{}"),
            (Some(&on), 404, ResponseSource::Upstream, "", "own"),
            (Some(&on), 502, ResponseSource::Nginx, "", "own"),
            (Some(&on), 405, ResponseSource::Apisix, "", "own"),
            (Some(&off), 404, ResponseSource::Apisix, "", "own"),
            (None, 404, ResponseSource::Apisix, "", "own"),
        ] {
            let bench = Bench::new("GET /");
            let mut exchange = bench.exchange();
            exchange.source = source;
            testkit::response(&chain(metadata), &mut exchange, status);
            assert_eq!(testkit::lines(exchange.reply_headers), lines, "{metadata:?} {status}");
            assert_eq!(testkit::body(&mut exchange, b"own"), body.as_bytes(), "{metadata:?} {status}");
        }
    }
}
