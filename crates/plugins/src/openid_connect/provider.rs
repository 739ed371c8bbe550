//! The identity provider: what it publishes, and calls to it.

use super::client_auth::{ClientAuth, Form};
use super::config::Config;
use crate::identity::{Cached, Servers, ask, post_form};
use crate::jose::{Jwks, Token};
use model::ConfigError;
use plugin::{Call, CallTimeouts, CompileContext, EndpointOptions, Services};
use serde_json::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;

/// Seconds for which a discovery document is kept.
const DOCUMENT_S: u64 = 86_400;

/// Seconds between two requests for the keys because of tokens with a key that is not known. Whoever makes tokens up must
/// not make the gateway ask each time.
const KEYS_AGAIN_S: u64 = 10;

/// The provider of one configuration.
pub(super) struct Provider {
    url: String,
    servers: Servers,
    timeouts: CallTimeouts,
    keys_s: u64,
    document: Cached<Document>,
    keys: Cached<Jwks>,
    /// Good while the keys are not asked for again.
    keys_asked: Cached<()>,
    pub(super) client: ClientAuth,
}

/// A discovery document (OpenID Connect Discovery 3).
pub(super) struct Document(Map<String, Value>);

impl Document {
    /// The member called `name`, if it is text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// The URL of an endpoint.
    pub(super) fn endpoint(&self, name: &str) -> Result<&str, String> {
        self.text(name).ok_or_else(|| format!("the discovery document has no {name}"))
    }

    /// Whether the list called `name` has `value`; true where there is no such list.
    pub(super) fn lists(&self, name: &str, value: &str) -> bool {
        let list = self.0.get(name).and_then(Value::as_array);
        list.is_none_or(|list| list.iter().any(|item| item.as_str() == Some(value)))
    }
}

impl Provider {
    pub(super) fn compile(config: &Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let options = EndpointOptions { ssl_verify: config.ssl_verify, ..EndpointOptions::default() };
        let servers = Servers::new(cx.upstreams(), options);
        for (url, path) in [
            (Some(&config.discovery), "/discovery"),
            (config.introspection_endpoint.as_ref(), "/introspection_endpoint"),
            (config.par.endpoint.as_ref(), "/par/endpoint"),
        ] {
            let found = url.map_or(Ok(()), |url| servers.find(url).map(drop));
            found.map_err(|errors| errors.into_iter().map(|error| error.under(path)).collect::<Vec<_>>())?;
        }
        Ok(Self {
            url: config.discovery.clone(),
            servers,
            timeouts: CallTimeouts::all(config.timeout()),
            keys_s: config.jwk_expires_in,
            document: Cached::default(),
            keys: Cached::default(),
            keys_asked: Cached::default(),
            client: ClientAuth::compile(config).map_err(|error| vec![error])?,
        })
    }

    /// The discovery document, if it is known.
    pub(super) fn known(&self, now_s: u64) -> Option<Arc<Document>> {
        self.document.find(now_s)
    }

    /// The discovery document.
    pub(super) async fn document(
        &self,
        services: &Rc<dyn Services>,
        now_s: u64,
    ) -> Result<Arc<Document>, String> {
        if let Some(document) = self.known(now_s) {
            return Ok(document);
        }
        let failed = |why: String| format!("accessing discovery url ({}) failed: {why}", self.url);
        match self.get(services, &self.url, None).await.map_err(failed)? {
            (200, Some(Value::Object(document))) => {
                Ok(self.document.keep(Document(document), now_s + DOCUMENT_S))
            }
            (status, _) => Err(failed(format!("status {status}, no JSON object"))),
        }
    }

    /// Whether one of the provider's keys signed `token`.
    pub(super) async fn signed(
        &self,
        services: &Rc<dyn Services>,
        token: &Token<'_>,
        now_s: u64,
    ) -> Result<bool, String> {
        let Some(algorithm) = token.algorithm() else { return Ok(false) };
        let mut keys = self.keys.find(now_s);
        let is_new =
            keys.as_ref().is_some_and(|keys| !keys.knows(token)) && self.keys_asked.find(now_s).is_none();
        if keys.is_none() || is_new {
            let document = self.document(services, now_s).await?;
            let url = document.endpoint("jwks_uri")?;
            self.keys_asked.keep((), now_s + KEYS_AGAIN_S);
            let endpoint = self.servers.find(url).map_err(|_| "the jwks_uri is no URL".to_owned())?;
            let call = Call::new("GET", endpoint.authority.as_str(), endpoint.target.as_str(), self.timeouts);
            let call = call.map_err(|error| error.to_string())?;
            let answer = ask(services, &endpoint, call).await;
            let (status, _, body) = answer.map_err(|error| format!("accessing jwks url failed: {error}"))?;
            let fetched = Jwks::parse(&body).filter(|_| status == 200);
            let fetched =
                fetched.ok_or_else(|| format!("accessing jwks url failed: status {status}, no keys"))?;
            keys = Some(self.keys.keep(fetched, now_s + self.keys_s));
        }
        Ok(keys.is_some_and(|keys| keys.verifies(token, algorithm)))
    }

    /// Posts a form as the client, authenticated as `method` says.
    pub(super) async fn post(
        &self,
        services: &Rc<dyn Services>,
        url: &str,
        method: &str,
        mut form: Form,
        fields: &[(String, Vec<u8>)],
        now_s: u64,
    ) -> Result<(u16, Option<Value>), String> {
        self.client.sign(method, url, now_s, &mut form)?;
        let endpoint = self.servers.find(url).map_err(|_| format!("no URL: {url}"))?;
        let mut call = post_form(&endpoint, &form.pairs, self.timeouts).map_err(|error| error.to_string())?;
        call.headers.set("Accept", "application/json");
        for (name, value) in fields {
            call.headers.set(name, value);
        }
        if let Some(authorization) = &form.authorization {
            call.headers.set("Authorization", authorization);
        }
        let (status, _, body) = ask(services, &endpoint, call).await.map_err(|error| error.to_string())?;
        Ok((status, serde_json::from_slice(&body).ok()))
    }

    /// Fetches a JSON document, with an access token where there is one.
    pub(super) async fn get(
        &self,
        services: &Rc<dyn Services>,
        url: &str,
        token: Option<&str>,
    ) -> Result<(u16, Option<Value>), String> {
        let endpoint = self.servers.find(url).map_err(|_| format!("no URL: {url}"))?;
        let call = Call::new("GET", endpoint.authority.as_str(), endpoint.target.as_str(), self.timeouts);
        let mut call = call.map_err(|error| error.to_string())?;
        call.headers.set("Accept", "application/json");
        if let Some(token) = token {
            call.headers.set("Authorization", format!("Bearer {token}"));
        }
        let (status, _, body) = ask(services, &endpoint, call).await.map_err(|error| error.to_string())?;
        Ok((status, serde_json::from_slice(&body).ok()))
    }
}
