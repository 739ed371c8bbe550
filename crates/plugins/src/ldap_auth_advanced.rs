//! Lets in who shows a name and a password of an entry that a search of an LDAP directory finds.
//!
//! ## When to use
//! Where users are anywhere below an entry of the directory. The plugin binds with a name of its own, or anonymously,
//! searches the entry whose `attribute` is the user's name, and binds as that entry with the user's password.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "ldap-auth-advanced": {
//!         "ldap_uri": "localhost:1389",
//!         "base_dn": "dc=example,dc=org",
//!         "attribute": "uid",
//!         "bind_dn": "cn=reader,dc=example,dc=org",
//!         "ldap_password": "secret"
//!     }
//! }
//! ```
//! In the consumer: `{"ldap-auth-advanced": {"user_dn": "cn=user01,ou=users,dc=example,dc=org"}}`, the name of the entry as
//! the directory writes it. Requests show name and password in `Proxy-Authorization` or `Authorization`, scheme `ldap` or
//! `Basic` as `header_type` says.
//!
//! ## Differences from APISIX
//! - `use_starttls` is refused: encrypt with `use_ldaps`.
//! - `keepalive_pool_name` has no effect: connections belong to the configuration that opened them.

use crate::auth::{self, BASE64};
use crate::ldap::{
    Client, Directory, DirectoryConfig, INVALID_CREDENTIALS, LdapError, SIZE_LIMIT_EXCEEDED, Search,
};
use base64::Engine;
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply, log_for};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<LdapAuthAdvanced>("ldap-auth-advanced", 2541)
        .authenticates()
        .on_rewrite()
        .encrypt_fields(&["ldap_password"])
        .build()
}

/// The name of an attribute, with options (RFC 4512 section 2.5).
const ATTRIBUTE: &str =
    "^(?:[A-Za-z][A-Za-z0-9-]*|(?:0|[1-9][0-9]*)(?:\\.(?:0|[1-9][0-9]*))+)(?:;[A-Za-z0-9-]+)*$";

/// What a user writes on a route.
#[derive(Debug, Deserialize)]
pub struct Config {
    ldap_uri: String,
    use_ldaps: bool,
    use_starttls: bool,
    ssl_verify: bool,
    timeout: u64,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool_size: usize,
    base_dn: String,
    attribute: String,
    bind_dn: Option<String>,
    ldap_password: Option<Secret>,
    size_limit: u64,
    time_limit: u64,
    consumer_required: bool,
    header_type: Scheme,
    realm: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scheme {
    Ldap,
    Basic,
}

/// The compiled form.
pub struct LdapAuthAdvanced {
    directory: Directory,
    lookup: Arc<Lookup>,
    scheme: &'static str,
}

/// How a user's entry is found, and what becomes of a request then.
struct Lookup {
    base_dn: String,
    attribute: String,
    bind_dn: String,
    password: Secret,
    size_limit: u32,
    time_limit_s: u32,
    consumer_required: bool,
    challenge: String,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    user_dn: String,
}

/// Why a request isn't let in.
enum Refusal {
    /// The client's fault: 401.
    Client(&'static str),
    /// The directory's, or the configuration's: 500.
    Directory(&'static str, LdapError),
}

impl Plugin for LdapAuthAdvanced {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        if config.use_ldaps && config.use_starttls {
            return Err(vec![ConfigError::new("", "use_ldaps and use_starttls are mutually exclusive")]);
        }
        if config.use_starttls {
            return Err(vec![ConfigError::new("/use_starttls", "not supported: use use_ldaps")]);
        }
        if config.bind_dn.is_some() && config.ldap_password.is_none() {
            return Err(vec![ConfigError::new("", "ldap_password is required when bind_dn is set")]);
        }
        let directory = DirectoryConfig {
            address: &config.ldap_uri,
            tls: config.use_ldaps,
            verify: config.ssl_verify,
            timeout: Duration::from_millis(config.timeout),
            pool: if config.keepalive { config.keepalive_pool_size } else { 0 },
            idle: Duration::from_millis(config.keepalive_timeout),
        };
        let port = if config.use_ldaps { 636 } else { 389 };
        let scheme = match config.header_type {
            Scheme::Ldap => "ldap",
            Scheme::Basic => "Basic",
        };
        let named = config.bind_dn.is_some();
        Ok(Self {
            directory: Directory::compile(directory, port, "/ldap_uri", cx)?,
            lookup: Arc::new(Lookup {
                base_dn: config.base_dn,
                attribute: config.attribute,
                bind_dn: config.bind_dn.unwrap_or_default(),
                // A password without a name would be no anonymous bind.
                password: config.ldap_password.filter(|_| named).unwrap_or_default(),
                // RFC 4511 section 4.1.1: at most 2^31 - 1.
                size_limit: config.size_limit.min(0x7fff_ffff) as u32,
                time_limit_s: config.time_limit.min(0x7fff_ffff) as u32,
                consumer_required: config.consumer_required,
                challenge: format!("{scheme} realm=\"{}\"", config.realm),
            }),
            scheme,
        })
    }

    fn schema() -> Value {
        let text = |what: &str, max: u32| json!({"description": what, "type": "string", "minLength": 1, "maxLength": max});
        let flag =
            |what: &str, default: bool| json!({"description": what, "type": "boolean", "default": default});
        let number = |what: &str, minimum: u32, default: u32| json!({"description": what, "type": "integer", "minimum": minimum, "default": default});
        let mut timeout = number("Milliseconds that connecting and each operation may take.", 1, 10_000);
        timeout["maximum"] = json!(60_000);
        json!({
            "type": "object",
            "title": "work with route or service object",
            "properties": {
                "ldap_uri": text("The directory's address: `host` or `host:port`.", 256),
                "use_ldaps": flag("Whether the connection is encrypted from the start.", false),
                "use_starttls": flag("Not supported.", false),
                "ssl_verify": flag("Whether the directory's certificate must be valid for its name.", true),
                "timeout": timeout,
                "keepalive": flag("Whether connections are reused.", true),
                "keepalive_timeout": number("Milliseconds after which an idle connection is closed.", 1000, 60_000),
                "keepalive_pool_size": number("Idle connections that each worker keeps.", 1, 5),
                "keepalive_pool_name": text("No effect.", 256),
                "base_dn": text("The entry below which users are searched.", 4096),
                "attribute": {
                    "description": "The attribute that users log in with.",
                    "type": "string", "maxLength": 256, "default": "cn", "pattern": ATTRIBUTE
                },
                "bind_dn": text("Whose right the search is; anonymous without.", 4096),
                "ldap_password": text("The password of `bind_dn`.", 4096),
                "size_limit": number("Entries that a search may find.", 2, 2),
                "time_limit": number("Seconds that a search may take; 0 is the directory's limit.", 0, 5),
                "consumer_required": flag("Whether users without a consumer are refused.", true),
                "header_type": {
                    "description": "The scheme of credentials.",
                    "type": "string", "enum": ["ldap", "basic"], "default": "ldap"
                },
                "realm": auth::realm_schema("ldap")
            },
            "encrypt_fields": ["ldap_password"],
            "required": ["ldap_uri", "base_dn"]
        })
    }
}

impl Authenticator for LdapAuthAdvanced {
    type CredentialConfig = CredentialConfig;
    type Credential = ();

    fn credential_schema() -> Value {
        json!({
            "type": "object",
            "title": "work with consumer object",
            "properties": {"user_dn": {"type": "string", "minLength": 1, "maxLength": 4096}},
            "required": ["user_dn"]
        })
    }

    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, ()), Vec<ConfigError>> {
        Ok((config.user_dn.into_bytes(), ()))
    }
}

impl OnRewrite for LdapAuthAdvanced {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        // The gateway alone says who the user is, also where no consumer is needed.
        let headers = &mut exchange.request.edit().headers;
        for name in [
            "X-Authenticated-Groups",
            "X-Consumer-Username",
            "X-Credential-Identifier",
            "X-Consumer-Custom-ID",
        ] {
            headers.remove(name);
        }
        let (user, password) = match self.credentials(exchange) {
            Ok(credentials) => credentials,
            Err(why) => return self.lookup.refuse(Refusal::Client(why), exchange),
        };
        let client = self.directory.client(exchange);
        let (lookup, settled) = (Arc::clone(&self.lookup), Arc::clone(&self.lookup));
        Flow::wait(async move { lookup.find(client, &user, &password).await }, move |found, exchange| {
            match found {
                Ok(user_dn) => settled.admit(&user_dn, exchange),
                Err(refusal) => settled.refuse(refusal, exchange),
            }
        })
    }
}

impl LdapAuthAdvanced {
    fn credentials(&self, exchange: &Exchange<'_>) -> Result<(String, String), &'static str> {
        let header = |name: &[u8]| Some(self.read(exchange.request.header(name)?));
        match (header(b"proxy-authorization"), header(b"authorization")) {
            (Some(Ok(credentials)), _) | (_, Some(Ok(credentials))) => Ok(credentials),
            (_, Some(Err(why))) | (Some(Err(why)), None) => Err(why),
            (None, None) => Err("missing authorization header"),
        }
    }

    /// The name and the password in a field's value.
    fn read(&self, header: &[u8]) -> Result<(String, String), &'static str> {
        let form = "invalid authorization header format";
        let (scheme, rest) = header.split_at_checked(self.scheme.len()).ok_or(form)?;
        let encoded = rest.trim_ascii_start();
        if !scheme.eq_ignore_ascii_case(self.scheme.as_bytes()) || encoded.len() == rest.len() {
            return Err(form);
        }
        let decoded = BASE64.decode(encoded.trim_ascii_end());
        let decoded = decoded.map_err(|_| "failed to base64-decode authorization header")?;
        let decoded = String::from_utf8(decoded).map_err(|_| "invalid username")?;
        let (user, password) = decoded.split_once(':').ok_or("invalid credential: missing ':' separator")?;
        match (user, password) {
            // A bind without a password is one as nobody (RFC 4513 section 5.1.2), and succeeds.
            (_, "") => Err("empty password rejected before bind"),
            ("", _) => Err("empty username"),
            (user, password) => Ok((user.to_owned(), password.to_owned())),
        }
    }
}

impl Lookup {
    /// The name of the user's entry, if the directory takes the password for it.
    async fn find(&self, mut client: Client, user: &str, password: &str) -> Result<String, Refusal> {
        // Also where the connection is one that was kept: it belongs to the user who came before.
        match client.bind(&self.bind_dn, self.password.as_str()).await {
            Ok(0) => {}
            Ok(code) => return Err(Refusal::Directory("LDAP search bind failed", LdapError::Failed(code))),
            Err(error) => return Err(Refusal::Directory("LDAP connect failed", error)),
        }
        let search = Search {
            base: &self.base_dn,
            attribute: &self.attribute,
            value: user,
            size_limit: self.size_limit,
            time_limit_s: self.time_limit_s,
        };
        let mut names = match client.search(&search).await {
            Ok(names) => names,
            Err(LdapError::Failed(SIZE_LIMIT_EXCEEDED)) => {
                return Err(Refusal::Client(
                    "ambiguous user match (size limit exceeded); check attribute uniqueness",
                ));
            }
            Err(error) => return Err(Refusal::Directory("LDAP user search failed", error)),
        };
        let user_dn = names.pop().filter(|name| !name.is_empty()).ok_or(Refusal::Client("user not found"))?;
        if !names.is_empty() {
            return Err(Refusal::Client("ambiguous user match (>1 entry); check attribute uniqueness"));
        }
        match client.bind(&user_dn, password).await {
            Ok(0) => {
                client.keep();
                Ok(user_dn)
            }
            Ok(INVALID_CREDENTIALS) => Err(Refusal::Client("user authentication failed")),
            Ok(code) => Err(Refusal::Directory("LDAP authentication bind failed", LdapError::Failed(code))),
            Err(error) => Err(Refusal::Directory("LDAP authentication bind failed", error)),
        }
    }

    fn admit(&self, user_dn: &str, exchange: &mut Exchange<'_>) -> Flow {
        if !self.consumer_required {
            return Flow::Next;
        }
        let consumers = exchange.consumers;
        match consumers.find::<LdapAuthAdvanced>(user_dn.as_bytes()) {
            Some((identity, ())) => {
                exchange.attach(identity);
                Flow::Next
            }
            None if consumers.any::<LdapAuthAdvanced>() => {
                self.refuse(Refusal::Client("no Consumer maps to the authenticated user_dn"), exchange)
            }
            None => self.refuse(Refusal::Client("consumer_required but no Consumer is configured"), exchange),
        }
    }

    fn refuse(&self, refusal: Refusal, exchange: &Exchange<'_>) -> Flow {
        match refusal {
            Refusal::Client(why) => {
                log_for!(warn, exchange, "ldap-auth-advanced: {why}");
                let reply = Reply::message(401, "Authorization required");
                Flow::reply(reply.with_header("WWW-Authenticate", self.challenge.as_str()))
            }
            Refusal::Directory(what, error) => {
                log_for!(error, exchange, "ldap-auth-advanced: {what}: {error}");
                Flow::status(500)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    fn registry() -> Registry {
        Registry::new([def()], serde_json::Map::new()).expect("valid schemas")
    }

    #[test]
    fn what_is_no_credential_is_refused_without_asking() {
        let config = json!({"base_dn": "dc=a", "ldap_uri": "ldap.test", "realm": "r"});
        let chain = testkit::chain(&registry(), &json!({ "ldap-auth-advanced": config })).expect("valid");
        let ldap = |text: &[u8]| format!("Authorization: ldap {}", STANDARD.encode(text));
        for field in [
            "X: 1".to_owned(),
            "Authorization: Basic YTpi".to_owned(),
            "Authorization: ldapYTpi".to_owned(),
            "Authorization: ldap !!".to_owned(),
            ldap(b"jack"),
            ldap(b"jack:"),
            ldap(b":secret"),
            ldap(b"\xff:secret"),
            "Proxy-Authorization: ldap".to_owned(),
        ] {
            let bench = Bench::new(&format!("GET /\n{field}\nX-Consumer-Username: forged"));
            let mut exchange = bench.exchange();
            let reply = testkit::request(&chain, &mut exchange).expect("refused");
            assert_eq!(
                reply.body.as_deref(),
                Some(&b"{\"message\":\"Authorization required\"}\n"[..]),
                "{field}"
            );
            assert_eq!(
                (reply.status, reply.header(b"www-authenticate")),
                (401, Some(&b"ldap realm=\"r\""[..]))
            );
            assert!(bench.services.connections().is_empty());
            assert_eq!(exchange.request.header(b"x-consumer-username"), None);
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        for (more, message) in [
            (
                json!({"use_ldaps": true, "use_starttls": true}),
                "use_ldaps and use_starttls are mutually exclusive",
            ),
            (json!({"use_starttls": true}), "not supported: use use_ldaps"),
            (json!({"bind_dn": "cn=a"}), "ldap_password is required when bind_dn is set"),
        ] {
            let mut config = json!({"base_dn": "dc=a", "ldap_uri": "ldap.test"});
            config.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            let found =
                testkit::chain(&registry(), &json!({ "ldap-auth-advanced": config })).expect_err(message);
            assert!(found[0].message.contains(message), "{found:?}");
        }
        for attribute in ["uid)(x=*", "", "a b", "1.2.x"] {
            let config = json!({"base_dn": "dc=a", "ldap_uri": "ldap.test", "attribute": attribute});
            assert!(
                testkit::chain(&registry(), &json!({ "ldap-auth-advanced": config })).is_err(),
                "{attribute}"
            );
        }
    }
}
