//! What is asked of a Keycloak server.

use super::config::{Config, Enforcement};
use crate::identity::{Cached, Servers, ask, encode_args, post_form};
use plugin::{Call, CallTimeouts, Endpoint, Services};
use serde_json::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;
use stdx::Secret;

/// Resources of one path that are asked for.
const RESOURCES_MAX: usize = 100;

/// A Keycloak server, and what is known of it.
pub(super) struct Keycloak {
    pub(super) config: Config,
    pub(super) servers: Servers,
    pub(super) timeouts: CallTimeouts,
    pub(super) discovered: Cached<Map<String, Value>>,
    /// The token for the protection API.
    pub(super) grant: Cached<Grant>,
}

/// A token of the gateway's own.
pub(super) struct Grant {
    access_token: Secret,
    access_until_s: u64,
    refresh: Option<(Secret, u64)>,
}

/// Why a request doesn't pass.
#[derive(Debug)]
pub(super) enum Denial {
    /// The user has no permission.
    NotAuthorized(Vec<u8>),
    /// Keycloak refuses with this status and text.
    Refused(u16, Vec<u8>),
    /// Nobody knows: for the log alone.
    Failed(String),
}

type Answer = (u16, Vec<u8>);

impl Keycloak {
    /// Whether the user of `token` may call `path` with `method`.
    pub(super) async fn evaluate(
        &self,
        services: &Rc<dyn Services>,
        token: &[u8],
        path: &[u8],
        method: &str,
        now_s: u64,
    ) -> Result<(), Denial> {
        let config = &self.config;
        let mut permissions = if config.lazy_load_paths {
            self.resources(services, path, now_s).await.map_err(Denial::Failed)?
        } else {
            config.permissions.clone()
        };
        if permissions.is_empty() && config.policy_enforcement_mode == Enforcement::Enforcing {
            let body = br#"{"error":"access_denied","error_description":"not_authorized"}"#;
            return Err(Denial::NotAuthorized(body.to_vec()));
        }
        if config.http_method_as_scope {
            for permission in &mut permissions {
                permission.push_str(if permission.contains('#') { ", " } else { "#" });
                permission.push_str(method);
            }
        }
        let endpoint = self.endpoint(services, "token_endpoint", now_s).await.map_err(Denial::Failed)?;
        let mut pairs = vec![
            ("grant_type", config.grant_type.as_str()),
            ("audience", config.client_id.as_str()),
            ("response_mode", "decision"),
        ];
        pairs.extend(permissions.iter().map(|permission| ("permission", permission.as_str())));
        let call = post_form(&endpoint, &pairs, self.timeouts);
        let mut call = call.map_err(|error| Denial::Failed(error.to_string()))?;
        call.headers.set("Authorization", token);
        let (status, body) = self
            .send(services, &endpoint, call)
            .await
            .map_err(|why| Denial::Failed(format!("Error while sending authz request: {why}")))?;
        match status {
            200 if decided(&body) => Ok(()),
            403 => Err(Denial::NotAuthorized(body)),
            400..=499 => Err(Denial::Refused(status, body)),
            _ => Err(Denial::Failed(format!(
                "the token endpoint answered with status {status} and no decision"
            ))),
        }
    }

    /// The token endpoint's answer for a name and a password; else what the client and what the log are told.
    pub(super) async fn token_of(
        &self,
        services: &Rc<dyn Services>,
        username: &str,
        password: &Secret,
        now_s: u64,
    ) -> Result<Vec<u8>, (&'static str, String)> {
        const UNREACHABLE: &str = "Accessing token endpoint URL failed.";
        let failed = |why| (UNREACHABLE, why);
        let endpoint = self.endpoint(services, "token_endpoint", now_s).await.map_err(failed)?;
        let pairs = [("grant_type", "password"), ("username", username), ("password", password.as_str())];
        let (status, body) = self.post_as_client(services, &endpoint, &pairs).await.map_err(failed)?;
        if status != 200 || !serde_json::from_slice::<Value>(&body).is_ok_and(|body| body.is_object()) {
            let why = format!("the token endpoint refused a name and a password with status {status}");
            return Err(("Could not decode JSON from response.", why));
        }
        Ok(body)
    }

    /// The ids of the resources that Keycloak has for `path`.
    async fn resources(
        &self,
        services: &Rc<dyn Services>,
        path: &[u8],
        now_s: u64,
    ) -> Result<Vec<String>, String> {
        let grant = self.granted(services, now_s).await?;
        let endpoint = self.endpoint(services, "resource_registration_endpoint", now_s).await?;
        let separator = if endpoint.target.contains('?') { '&' } else { '?' };
        let query = encode_args(&[("uri", path), ("matchingUri", b"true")]);
        let target = format!("{}{separator}{query}", endpoint.target);
        let call = Call::new("GET", endpoint.authority.as_str(), target, self.timeouts);
        let mut call = call.map_err(|error| error.to_string())?;
        call.headers.set("Authorization", format!("Bearer {}", grant.access_token.as_str()));
        let (status, body) = self.send(services, &endpoint, call).await?;
        let ids: Option<Vec<String>> = serde_json::from_slice(&body).ok().filter(|_| status == 200);
        let ids = ids.filter(|ids| ids.len() <= RESOURCES_MAX);
        ids.ok_or_else(|| {
            format!("the resource registration endpoint answered with status {status} and no list of ids")
        })
    }

    /// The token for the protection API: the one that is kept, or a new one.
    async fn granted(&self, services: &Rc<dyn Services>, now_s: u64) -> Result<Arc<Grant>, String> {
        let kept = self.grant.find(now_s);
        if let Some(grant) = kept.as_ref().filter(|grant| now_s < grant.access_until_s) {
            return Ok(Arc::clone(grant));
        }
        let endpoint = self.endpoint(services, "token_endpoint", now_s).await?;
        let refresh = kept.as_ref().and_then(|grant| grant.refresh.as_ref());
        if let Some((token, _)) = refresh.filter(|(_, until_s)| now_s < *until_s) {
            let pairs = [("grant_type", "refresh_token"), ("refresh_token", token.as_str())];
            let answer = self.post_as_client(services, &endpoint, &pairs).await?;
            if let Some(grant) = self.read(&answer, now_s, kept.as_deref()) {
                return Ok(self.grant.keep(grant, now_s + self.config.cache_ttl_seconds));
            }
        }
        let answer =
            self.post_as_client(services, &endpoint, &[("grant_type", "client_credentials")]).await?;
        let grant = self.read(&answer, now_s, None);
        let grant = grant.ok_or_else(|| {
            format!("the token endpoint gave no access_token for the client, status {}", answer.0)
        })?;
        Ok(self.grant.keep(grant, now_s + self.config.cache_ttl_seconds))
    }

    /// The tokens in an answer; a refresh token that isn't replaced stays.
    fn read(&self, (status, body): &Answer, now_s: u64, before: Option<&Grant>) -> Option<Grant> {
        let body: Value = serde_json::from_slice(body).ok().filter(|_| *status == 200)?;
        let config = &self.config;
        let until_s = |name: &str, default_s: u64, leeway_s: u64| {
            let lifetime_s = body.get(name).and_then(Value::as_u64).unwrap_or(default_s);
            now_s.saturating_add(lifetime_s).saturating_sub(1 + leeway_s)
        };
        let token = |name: &str| body.get(name)?.as_str().filter(|token| !token.is_empty()).map(Secret::from);
        let refresh = token("refresh_token").map(|token| {
            let (default_s, leeway_s) =
                (config.refresh_token_expires_in, config.refresh_token_expires_leeway);
            (token, until_s("refresh_expires_in", default_s, leeway_s))
        });
        Some(Grant {
            access_token: token("access_token")?,
            access_until_s: until_s(
                "expires_in",
                config.access_token_expires_in,
                config.access_token_expires_leeway,
            ),
            refresh: refresh.or_else(|| before?.refresh.clone()),
        })
    }

    /// The endpoint called `name`: the configured one, or the one that is discovered.
    async fn endpoint(
        &self,
        services: &Rc<dyn Services>,
        name: &str,
        now_s: u64,
    ) -> Result<Endpoint, String> {
        let configured = match name {
            "token_endpoint" => &self.config.token_endpoint,
            _ => &self.config.resource_registration_endpoint,
        };
        let url = match (configured, &self.config.discovery) {
            (Some(url), _) => url.clone(),
            (None, Some(discovery)) => {
                let document = match self.discovered.find(now_s) {
                    Some(document) => document,
                    None => self.discover(services, discovery, now_s).await?,
                };
                let url = document.get(name).and_then(Value::as_str);
                url.ok_or_else(|| format!("Unable to determine {name}: the discovery document has none"))?
                    .to_owned()
            }
            (None, None) => return Err(format!("Unable to determine {name}")),
        };
        let found = self.servers.find(&url);
        found.map_err(|errors| format!("{name}: {}", errors.first().map_or("no URL", |error| &error.message)))
    }

    async fn discover(
        &self,
        services: &Rc<dyn Services>,
        url: &str,
        now_s: u64,
    ) -> Result<Arc<Map<String, Value>>, String> {
        let failed = |why: String| format!("Accessing discovery URL ({url}) failed: {why}");
        let endpoint = self.servers.find(url).map_err(|_| failed("no URL".to_owned()))?;
        let call = Call::new("GET", endpoint.authority.as_str(), endpoint.target.as_str(), self.timeouts);
        let call = call.map_err(|error| failed(error.to_string()))?;
        let (status, body) = self.send(services, &endpoint, call).await.map_err(failed)?;
        match serde_json::from_slice(&body) {
            Ok(Value::Object(document)) if status == 200 => {
                Ok(self.discovered.keep(document, now_s + self.config.cache_ttl_seconds))
            }
            _ => Err(failed(format!("status {status}, no JSON object"))),
        }
    }

    /// Posts a form with the client's own id and secret.
    async fn post_as_client(
        &self,
        services: &Rc<dyn Services>,
        endpoint: &Endpoint,
        pairs: &[(&str, &str)],
    ) -> Result<Answer, String> {
        let own =
            [("client_id", &*self.config.client_id), ("client_secret", self.config.client_secret.as_str())];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = pairs.iter().copied().chain(own).collect();
        let call = post_form(endpoint, &pairs, self.timeouts).map_err(|error| error.to_string())?;
        self.send(services, endpoint, call).await
    }

    async fn send(
        &self,
        services: &Rc<dyn Services>,
        endpoint: &Endpoint,
        call: Call,
    ) -> Result<Answer, String> {
        let answer = ask(services, endpoint, call).await;
        answer.map(|(status, _, body)| (status, body)).map_err(|error| error.to_string())
    }
}

/// Whether an answer is a yes.
fn decided(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body.get("result") == Some(&Value::Bool(true)))
}
