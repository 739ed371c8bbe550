//! Lets in who shows a name and a password that an LDAP directory takes.
//!
//! ## When to use
//! Where users are in a directory, all below one entry, and log in with one attribute of theirs.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "ldap-auth": {
//!         "base_dn": "ou=users,dc=example,dc=org",
//!         "ldap_uri": "localhost:1389",
//!         "uid": "cn"
//!     }
//! }
//! ```
//! In the consumer: `{"ldap-auth": {"user_dn": "cn=user01,ou=users,dc=example,dc=org"}}`. Requests show name and password
//! in `Authorization`, scheme `Basic`. The plugin binds as `cn=<name>,ou=users,dc=example,dc=org`, with the name escaped as
//! RFC 4514 says; `user_dn` has to be that text.
//!
//! ## Differences from APISIX
//! - A password may have colons.
//! - An empty name or password is refused without asking: to a directory it is a login as nobody, which succeeds.

use crate::auth::{self, user_and_password};
use crate::ldap::{Directory, DirectoryConfig, escape_rdn};
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply, log_for};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<LdapAuth>("ldap-auth", 2540).authenticates().on_rewrite().build()
}

/// How long the directory may take, APISIX's figures.
const TIMEOUT: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);

/// Idle connections to the directory that each worker keeps.
const POOL: usize = 5;

/// What a user writes on a route.
#[derive(Debug, Deserialize)]
pub struct Config {
    base_dn: String,
    ldap_uri: String,
    use_tls: bool,
    tls_verify: bool,
    uid: String,
    hide_credentials: bool,
    realm: String,
}

/// The compiled form.
pub struct LdapAuth {
    directory: Directory,
    base_dn: String,
    uid: String,
    hide_credentials: bool,
    challenge: String,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    user_dn: String,
}

impl Plugin for LdapAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let directory = DirectoryConfig {
            address: &config.ldap_uri,
            tls: config.use_tls,
            verify: config.tls_verify,
            timeout: TIMEOUT,
            pool: POOL,
            idle: IDLE,
        };
        Ok(Self {
            // As in APISIX the port is LDAP's own, also with TLS.
            directory: Directory::compile(directory, 389, "/ldap_uri", cx)?,
            base_dn: config.base_dn,
            uid: config.uid,
            hide_credentials: config.hide_credentials,
            challenge: format!("Basic realm=\"{}\"", config.realm),
        })
    }

    fn schema() -> Value {
        let flag = |what: &str| json!({"description": what, "type": "boolean", "default": false});
        json!({
            "type": "object",
            "title": "work with route or service object",
            "properties": {
                "base_dn": {"description": "The entry that all users are below.", "type": "string"},
                "ldap_uri": {"description": "The directory's address: `host:port`.", "type": "string"},
                "use_tls": flag("Whether the connection is encrypted from the start (LDAPS)."),
                "tls_verify": flag("Whether the directory's certificate must be valid for its name."),
                "uid": {"description": "The attribute that users log in with.", "type": "string", "default": "cn"},
                "hide_credentials": flag("Whether the upstream gets no `Authorization`."),
                "realm": auth::realm_schema("ldap")
            },
            "required": ["base_dn", "ldap_uri"]
        })
    }
}

impl Authenticator for LdapAuth {
    type CredentialConfig = CredentialConfig;
    type Credential = ();

    fn credential_schema() -> Value {
        json!({
            "type": "object",
            "title": "work with consumer object",
            "properties": {"user_dn": {"type": "string"}},
            "required": ["user_dn"]
        })
    }

    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, ()), Vec<ConfigError>> {
        Ok((config.user_dn.into_bytes(), ()))
    }
}

impl OnRewrite for LdapAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Some(header) = exchange.request.header(b"authorization") else {
            return refuse(&self.challenge, "Missing authorization in request");
        };
        let credentials = user_and_password(header).and_then(|(user, password)| {
            Some((String::from_utf8(user).ok()?, String::from_utf8(password).ok()?))
        });
        let Some((user, password)) = credentials else {
            log_for!(warn, exchange, "ldap-auth: invalid authorization header");
            return refuse(&self.challenge, "Invalid authorization in request");
        };
        if user.is_empty() || password.is_empty() {
            log_for!(warn, exchange, "ldap-auth: the name or the password is empty");
            return refuse(&self.challenge, "Invalid authorization in request");
        }
        let user_dn = format!("{}={},{}", self.uid, escape_rdn(&user), self.base_dn);
        let mut client = self.directory.client(exchange);
        let (challenge, hide_credentials) = (self.challenge.clone(), self.hide_credentials);
        Flow::wait(
            async move {
                let code = client.bind(&user_dn, &password).await;
                if code.is_ok() {
                    client.keep();
                }
                (user_dn, code)
            },
            move |(user_dn, code), exchange| {
                match code {
                    Ok(0) => {}
                    Ok(code) => {
                        log_for!(
                            warn,
                            exchange,
                            "ldap-auth failed: the bind was refused with result code {code}"
                        );
                        return refuse(&challenge, "Invalid user authorization");
                    }
                    Err(error) => {
                        log_for!(warn, exchange, "ldap-auth failed: {error}");
                        return refuse(&challenge, "Invalid user authorization");
                    }
                }
                let consumers = exchange.consumers;
                if !consumers.any::<Self>() {
                    return refuse(&challenge, "Missing related consumer");
                }
                let Some((identity, ())) = consumers.find::<Self>(user_dn.as_bytes()) else {
                    return refuse(&challenge, "Invalid user authorization");
                };
                exchange.attach(identity);
                if hide_credentials {
                    exchange.request.edit().headers.remove("Authorization");
                }
                Flow::Next
            },
        )
    }
}

fn refuse(challenge: &str, why: &str) -> Flow {
    Flow::reply(Reply::message(401, why).with_header("WWW-Authenticate", challenge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn what_is_no_credential_is_refused_without_asking() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let config = json!({"base_dn": "dc=a", "ldap_uri": "ldap.test:389"});
        let chain = testkit::chain(&registry, &json!({ "ldap-auth": config })).expect("valid");
        let basic = |text: &[u8]| format!("Authorization: Basic {}", STANDARD.encode(text));
        for (field, why) in [
            ("X: 1".to_owned(), "Missing authorization in request"),
            ("Authorization: Bearer x".to_owned(), "Invalid authorization in request"),
            ("Authorization: Basic !!".to_owned(), "Invalid authorization in request"),
            (basic(b"jack"), "Invalid authorization in request"),
            (basic(b"jack:"), "Invalid authorization in request"),
            (basic(b"jack: \t"), "Invalid authorization in request"),
            (basic(b":secret"), "Invalid authorization in request"),
            (basic(b"\xff:secret"), "Invalid authorization in request"),
        ] {
            let bench = Bench::new(&format!("GET /\n{field}"));
            let reply = testkit::request(&chain, &mut bench.exchange()).expect("refused");
            assert_eq!(reply.body, Some(format!("{{\"message\":\"{why}\"}}\n").into_bytes()), "{field}");
            assert_eq!(
                (reply.status, reply.header(b"www-authenticate")),
                (401, Some(&b"Basic realm=\"ldap\""[..]))
            );
            assert!(bench.services.connections().is_empty());
        }
        for uri in ["", "ldap://a", "a:0"] {
            let config = json!({"ldap-auth": {"base_dn": "dc=a", "ldap_uri": uri}});
            let found = testkit::chain(&registry, &config).expect_err(uri);
            assert_eq!(found[0].path, "/ldap-auth/ldap_uri");
        }
    }
}
