//! How the client authenticates at the provider's endpoints (OpenID Connect Core 9).

use super::config::Config;
use crate::identity::{escape, random_text};
use crate::jose::{Algorithm, Signer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use serde_json::json;
use stdx::Secret;

/// The type of assertions (RFC 7523 section 2.2).
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The client's credentials.
pub(super) struct ClientAuth {
    id: String,
    secret: Option<Secret>,
    private: Option<Signer>,
    shared: Option<Signer>,
    kid: Option<String>,
    audience: Option<String>,
    expires_in_s: u64,
}

/// A request to the provider in the making.
#[derive(Default)]
pub(super) struct Form {
    pub(super) pairs: Vec<(&'static str, String)>,
    pub(super) authorization: Option<String>,
}

impl ClientAuth {
    pub(super) fn compile(config: &Config) -> Result<Self, ConfigError> {
        let algorithm = config.client_jwt_assertion_alg;
        let of_secret =
            algorithm.filter(|algorithm| algorithm.digest().is_some()).unwrap_or(Algorithm::HS256);
        let of_key = algorithm.filter(|algorithm| algorithm.digest().is_none()).unwrap_or(Algorithm::RS256);
        let uses_key = [&config.token_endpoint_auth_method, &config.introspection_endpoint_auth_method]
            .into_iter()
            .chain(&config.par.endpoint_auth_method)
            .any(|method| method == "private_key_jwt");
        let private = match &config.client_rsa_private_key {
            Some(pem) if uses_key => {
                let signer = Signer::private(of_key, pem.as_str());
                let message = format!("is not a private key that signs with {}", of_key.name());
                Some(signer.ok_or_else(|| ConfigError::new("/client_rsa_private_key", message))?)
            }
            _ => None,
        };
        Ok(Self {
            id: config.client_id.clone(),
            secret: config.client_secret.clone(),
            private,
            shared: config
                .client_secret
                .as_ref()
                .and_then(|secret| Signer::secret(of_secret, secret.as_str())),
            kid: config.client_rsa_private_key_id.clone(),
            audience: config.client_jwt_assertion_audience.clone(),
            expires_in_s: config.client_jwt_assertion_expires_in,
        })
    }

    /// Adds what says who the client is.
    pub(super) fn sign(
        &self,
        method: &str,
        endpoint: &str,
        now_s: u64,
        form: &mut Form,
    ) -> Result<(), String> {
        let secret = self.secret.as_ref().map(Secret::as_str);
        match (method, secret) {
            ("private_key_jwt", _) => self.assert(self.private.as_ref(), endpoint, now_s, form),
            ("client_secret_jwt", _) => self.assert(self.shared.as_ref(), endpoint, now_s, form),
            ("client_secret_basic", Some(secret)) => {
                // RFC 6749 section 2.3.1: both are encoded as in a form before.
                let credentials = STANDARD.encode(format!("{}:{}", escape(&self.id), escape(secret)));
                form.authorization = Some(format!("Basic {credentials}"));
                Ok(())
            }
            _ => {
                form.pairs.push(("client_id", self.id.clone()));
                form.pairs.extend(secret.map(|secret| ("client_secret", secret.to_owned())));
                Ok(())
            }
        }
    }

    fn assert(
        &self,
        signer: Option<&Signer>,
        endpoint: &str,
        now_s: u64,
        form: &mut Form,
    ) -> Result<(), String> {
        let signer = signer.ok_or("the client has no key for its assertion")?;
        let claims = json!({
            "iss": self.id,
            "sub": self.id,
            "aud": self.audience.as_deref().unwrap_or(endpoint),
            "jti": random_text().ok_or("no random bytes")?,
            "iat": now_s,
            "exp": now_s + self.expires_in_s,
        });
        let token = signer.token(self.kid.as_deref(), &claims).ok_or("the assertion could not be signed")?;
        form.pairs.push(("client_id", self.id.clone()));
        form.pairs.push(("client_assertion_type", ASSERTION.to_owned()));
        form.pairs.push(("client_assertion", token));
        Ok(())
    }
}
