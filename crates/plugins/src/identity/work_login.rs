//! Logins by a code that an app or a login page of a work platform gives: the settings and sessions that they share.

use super::{CookieAttributes, Session, Sessions};
use crate::text::decode_arg;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plugin::{Exchange, ExternalUser, Flow, Reply, log_for};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use stdx::{Clock, Secret};

/// The field in which the upstream gets what the platform says of the user.
const USERINFO: &str = "X-Userinfo";

/// What a user writes.
#[derive(Debug, Deserialize)]
pub(crate) struct WorkLoginConfig {
    code_header: String,
    code_query: String,
    set_userinfo_header: bool,
    redirect_uri: String,
    secret: Secret,
    #[serde(default)]
    secret_fallbacks: Vec<Secret>,
    cookie_expires_in: u64,
}

/// The same, compiled.
pub(crate) struct WorkLogin {
    code_header: String,
    code_query: String,
    set_userinfo_header: bool,
    redirect_uri: String,
    sessions: Sessions,
    clock: Arc<Clock>,
}

/// What to do with a request.
pub(crate) enum Step {
    /// It has a session, or nothing to show.
    Done(Flow),
    /// It shows this code.
    Code(String),
}

impl WorkLogin {
    /// Logins whose session is in the cookie `name`.
    pub(crate) fn new(config: WorkLoginConfig, name: &str, clock: Arc<Clock>) -> Self {
        let secrets = std::iter::once(&config.secret).chain(&config.secret_fallbacks).map(Secret::as_str);
        let attributes = CookieAttributes::default();
        Self {
            sessions: Sessions::new(name, secrets, config.cookie_expires_in, attributes),
            code_header: config.code_header,
            code_query: config.code_query,
            set_userinfo_header: config.set_userinfo_header,
            redirect_uri: config.redirect_uri,
            clock,
        }
    }

    /// Adds the settings to a schema's properties; `code_header` is the default of the field with the code.
    pub(crate) fn extend_schema(schema: &mut Value, code_header: &str) {
        let secret = json!({"type": "string", "minLength": 8, "maxLength": 32});
        let mut own_secret = secret.clone();
        own_secret["description"] = json!("What the key of sessions is derived from.");
        let own = json!({
            "code_header": {
                "description": "The header field with the authorization code.",
                "type": "string", "minLength": 1, "default": code_header
            },
            "code_query": {
                "description": "The query argument with the authorization code.",
                "type": "string", "minLength": 1, "default": "code"
            },
            "set_userinfo_header": {
                "description": "Whether the upstream gets what is known of the user in `X-Userinfo`: JSON in base64.",
                "type": "boolean", "default": true
            },
            "redirect_uri": {
                "description": "Where clients without a session and a code are sent.", "type": "string", "minLength": 1
            },
            "timeout": {
                "description": "Milliseconds that each step of a call may take.",
                "type": "integer", "minimum": 1, "default": 6000
            },
            "ssl_verify": {
                "description": "Whether the platform's certificate must be valid for its name.",
                "type": "boolean", "default": true
            },
            "secret": own_secret,
            "secret_fallbacks": {
                "description": "Former secrets, whose sessions are still good.", "type": "array", "items": secret
            },
            "cookie_expires_in": {
                "description": "Seconds for which a session is good.",
                "type": "integer", "minimum": 1, "default": 86400
            }
        });
        if let (Some(properties), Value::Object(own)) =
            (schema.get_mut("properties").and_then(Value::as_object_mut), own)
        {
            properties.extend(own);
        }
    }

    /// The time of the exchange in seconds since 1970.
    pub(crate) fn now_s(&self, exchange: &Exchange<'_>) -> u64 {
        self.clock.unix_ms(exchange.timing.started) / 1000
    }

    /// Finds out how to go on with a request.
    pub(crate) fn begin(&self, exchange: &mut Exchange<'_>) -> Step {
        exchange.request.edit().headers.remove(USERINFO);
        let session = self.sessions.read(&exchange.request, self.now_s(exchange));
        if let Some(user) = session.and_then(|(mut session, _)| session.remove("userinfo")) {
            self.publish(user, exchange);
            return Step::Done(Flow::Next);
        }
        let request = &exchange.request;
        let shown = request.header(self.code_header.as_bytes()).map(<[u8]>::to_vec);
        let shown = shown.or_else(|| Some(decode_arg(request.arg(self.code_query.as_bytes())?).into_owned()));
        match shown.and_then(|code| String::from_utf8(code).ok()).filter(|code| !code.is_empty()) {
            Some(code) => Step::Code(code),
            None => {
                let reply = Reply::status(302).with_header("Location", self.redirect_uri.as_str());
                Step::Done(Flow::reply(reply))
            }
        }
    }

    /// Lets in the user of whom the platform says `user`, and has the client keep a session.
    pub(crate) fn admit(&self, user: Value, exchange: &mut Exchange<'_>) -> Flow {
        let mut session = Session::new();
        session.insert("userinfo".to_owned(), user.clone());
        let (now_s, secure) = (self.now_s(exchange), exchange.client.scheme() == "https");
        if !self.sessions.write(&session, now_s, secure, &exchange.request, exchange.reply_headers) {
            log_for!(error, exchange, "{}: failed to save session: it is too long", self.sessions.name());
            return Flow::reply(Reply::message(500, "Failed to save session"));
        }
        self.publish(user, exchange);
        Flow::Next
    }

    fn publish(&self, user: Value, exchange: &mut Exchange<'_>) {
        if self.set_userinfo_header {
            exchange.request.edit().headers.set(USERINFO, STANDARD.encode(user.to_string()));
        }
        exchange.extensions().insert(ExternalUser(user));
    }
}
