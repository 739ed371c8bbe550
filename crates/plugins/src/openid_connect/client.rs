//! The gateway as a client of the provider, and what it tells the upstream and its own clients.

use super::config::Config;
use super::introspected::Introspected;
use super::provider::Provider;
use super::sessions::Store;
use crate::identity::escape;
use crate::jose::{Algorithm, Key};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::schema::Validator;
use plugin::{Exchange, ExternalUser, Flow, Reply};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The gateway as a client of the provider.
pub(super) struct Client {
    pub(super) config: Config,
    pub(super) provider: Provider,
    /// `None` with `bearer_only`.
    pub(super) store: Option<Store>,
    pub(super) callback_path: Option<String>,
    pub(super) public_keys: Vec<(Algorithm, Key)>,
    pub(super) claim_schema: Option<Validator>,
    pub(super) introspected: Introspected,
    pub(super) used: Arc<UsedStates>,
}

/// The states of logins that are over, until their cookies are.
#[derive(Default)]
pub(super) struct UsedStates(Mutex<HashMap<String, u64>>);

impl UsedStates {
    /// States that are remembered: some 100 bytes each.
    const MAX: usize = 200_000;
}

impl UsedStates {
    /// Takes note of a state; `false` where it was used before.
    pub(super) fn take(&self, state: &str, now_s: u64, until_s: u64) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= Self::MAX {
            used.retain(|_, until_s| now_s < *until_s);
        }
        // Where there is no room the login fails: else whoever fills it could use states again.
        used.len() < Self::MAX && used.insert(state.to_owned(), until_s).is_none()
    }
}

/// The answer to a token that is not good.
pub(super) fn invalid_token(realm: &str, why: &str) -> Flow {
    let challenge = format!(
        "Bearer realm=\"{}\", error=\"invalid_token\", error_description=\"{}\"",
        quotable(realm),
        quotable(why)
    );
    Flow::reply(Reply::status(401).with_header("WWW-Authenticate", challenge))
}

impl Client {
    /// Whether claims are as the configured schema says.
    pub(super) fn check_claims(&self, claims: &Value) -> Result<(), String> {
        let Some(schema) = &self.claim_schema else { return Ok(()) };
        schema.check(claims).first.map_or(Ok(()), Err)
    }

    pub(super) fn set_access_token(&self, token: &str, exchange: &mut Exchange<'_>) {
        if !self.config.set_access_token_header {
            return;
        }
        let headers = &mut exchange.request.edit().headers;
        if self.config.access_token_in_authorization_header {
            headers.set("Authorization", format!("Bearer {token}"));
        } else {
            headers.set("X-Access-Token", token);
        }
    }

    pub(super) fn set_userinfo(&self, user: Value, exchange: &mut Exchange<'_>) {
        if self.config.set_userinfo_header {
            exchange.request.edit().headers.set("X-Userinfo", STANDARD.encode(user.to_string()));
        }
        exchange.extensions().insert(ExternalUser(user));
    }
}

/// Text that may stand in a challenge's quotation marks (RFC 9110 section 5.6.4).
pub(super) fn quotable(text: &str) -> String {
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte) && !b"\"\\".contains(&byte)) {
        text.to_owned()
    } else {
        escape(text)
    }
}
