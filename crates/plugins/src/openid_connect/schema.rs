//! The schema, with APISIX's fields, defaults and bounds.

use serde_json::{Value, json};

/// Names of a library's options that stand in objects of their own here.
pub(super) fn reserved() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        ("use_par", "par.enabled"),
        ("pushed_authorization_request_endpoint", "par.endpoint"),
        ("pushed_authorization_request_endpoint_auth_method", "par.endpoint_auth_method"),
        ("use_dpop", "dpop.enabled"),
        ("dpop_signing_alg", "dpop.signing_alg"),
        ("dpop_private_key", "dpop.private_key"),
        ("dpop_public_jwk", "dpop.public_jwk"),
    ]
    .into_iter()
}

fn text(what: &str) -> Value {
    json!({"description": what, "type": "string"})
}

fn text_or(what: &str, default: &str) -> Value {
    json!({"description": what, "type": "string", "default": default})
}

fn flag(what: &str, default: bool) -> Value {
    json!({"description": what, "type": "boolean", "default": default})
}

fn seconds(what: &str, default: Option<u64>) -> Value {
    let mut schema = json!({"description": what, "type": "integer"});
    if let Some(default) = default {
        schema["default"] = default.into();
    }
    schema
}

/// The schema of the configuration.
pub(super) fn schema() -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": {},
        "encrypt_fields": [
            "client_secret", "client_rsa_private_key", "dpop.private_key", "session.secret", "session.redis.password"
        ],
        "required": ["client_id", "discovery"]
    });
    if let Some(properties) = schema["properties"].as_object_mut() {
        for part in [provider(), flow(), tokens(), headers(), client()] {
            properties.extend(part.as_object().cloned().unwrap_or_default());
        }
    }
    schema
}

/// The provider and how it is asked.
fn provider() -> Value {
    json!({
        "client_id": text("The client's id at the provider."),
        "client_secret": text("The client's secret."),
        "discovery": text("The URL of the provider's discovery document."),
        "scope": text_or("The scopes that are asked for, separated by spaces.", "openid"),
        "ssl_verify": flag("Whether the provider's certificate must be valid for its name.", true),
        "timeout": {
            "description": "Seconds that each step of a call to the provider may take.",
            "type": "integer", "minimum": 1, "default": 3
        },
        "introspection_endpoint": text("Where access tokens are looked up, if it isn't discovered."),
        "introspection_endpoint_auth_method": text_or("How the client authenticates there.", "client_secret_basic"),
        "token_endpoint_auth_method": text_or("How the client authenticates at the token endpoint.", "client_secret_basic"),
        "proxy_opts": {
            "description": "Not supported: a configuration with a proxy is refused.",
            "type": "object",
            "properties": {
                "http_proxy": {"type": "string"}, "https_proxy": {"type": "string"},
                "http_proxy_authorization": {"type": "string"}, "https_proxy_authorization": {"type": "string"},
                "no_proxy": {"type": "string"}
            }
        }
    })
}

/// The login of users, and their sessions.
fn flow() -> Value {
    json!({
        "session": session(),
        "logout_path": text_or("The path that ends a session.", "/logout"),
        "redirect_uri": text("Where users come back; `.apisix/redirect` below the request's path if not set."),
        "post_logout_redirect_uri": text("Where users come after a logout."),
        "unauth_action": {
            "description": "What becomes of requests without a session: a login, 401, or nothing.",
            "type": "string", "default": "auth", "enum": ["auth", "deny", "pass"]
        },
        "use_pkce": flag("Whether codes are bound to the client that asked (RFC 7636).", false),
        "use_nonce": flag("Whether ID tokens are bound to the request for them.", false),
        "par": {
            "description": "Pushed authorization requests (RFC 9126).",
            "type": "object",
            "properties": {
                "enabled": flag("Whether requests are pushed.", false),
                "endpoint": text("Where to, if it isn't discovered."),
                "endpoint_auth_method": {
                    "type": "string",
                    "enum": ["client_secret_basic", "client_secret_post", "private_key_jwt", "client_secret_jwt"]
                }
            },
            "additionalProperties": false
        },
        "dpop": dpop(),
        "authorization_params": {"description": "Further parameters of authorization requests.", "type": "object"},
        "renew_access_token_on_expiry": flag("Whether access tokens of sessions are renewed.", true),
        "access_token_expires_in": seconds("Seconds for which access tokens are valid, if the provider doesn't say.", None),
        "access_token_expires_leeway": seconds("Seconds before its end at which an access token is renewed.", Some(0)),
        "refresh_session_interval": seconds("Seconds after which the provider is asked again, without a login page.", None),
        "force_reauthorize": flag("Whether each request has to log in.", false),
        "revoke_tokens_on_logout": flag("Whether tokens are revoked with a logout (RFC 7009).", false)
    })
}

fn dpop() -> Value {
    let private = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
    let private: Vec<_> = private.iter().map(|name| json!({"required": [name]})).collect();
    json!({
        "description": "Not supported: a configuration with `enabled` is refused.",
        "type": "object",
        "properties": {
            "enabled": {"type": "boolean", "default": false},
            "signing_alg": {"type": "string", "enum": ["ES256", "RS256", "PS256"], "default": "ES256"},
            "private_key": {"type": "string"},
            "public_jwk": {"type": "object", "not": {"anyOf": private}}
        },
        "additionalProperties": false
    })
}

/// What is checked about tokens.
fn tokens() -> Value {
    json!({
        "bearer_only": flag("Whether requests have to show a bearer token.", false),
        "realm": text_or("The realm of challenges.", "apisix"),
        "claim_validator": {
            "type": "object",
            "properties": {
                "issuer": {
                    "type": "object",
                    "properties": {"valid_issuers": {
                        "description": "The issuers whose tokens count; the discovered one if not set.",
                        "type": "array", "items": {"type": "string"}
                    }}
                },
                "audience": {
                    "type": "object",
                    "properties": {
                        "claim": text_or("The claim with the audience.", "aud"),
                        "required": flag("Whether the claim must be there.", false),
                        "match_with_client_id": flag("Whether it must be or hold the client's id.", false)
                    }
                }
            }
        },
        "public_key": text("The public key, or certificate, that checks signatures of bearer tokens, in PEM."),
        "use_jwks": flag("Whether the provider's published keys check signatures of bearer tokens.", false),
        "token_signing_alg_values_expected": text("The one algorithm that tokens may be signed with."),
        "iat_slack": seconds("Seconds by which clocks may differ.", Some(120)),
        "accept_none_alg": flag("Whether ID tokens from the token endpoint may be unsigned.", false),
        "accept_unsupported_alg": flag("No effect: ID tokens with an unknown algorithm are refused.", true),
        "jwk_expires_in": seconds("Seconds for which published keys are kept.", Some(86_400)),
        "jwt_verification_cache_ignore": flag("No effect: signatures are always checked.", false),
        "cache_segment": text("No effect: each configuration has its own caches."),
        "introspection_interval": seconds("Seconds for which what introspection told is kept at most.", Some(0)),
        "introspection_expiry_claim": text("The claim that says until when it is kept; `exp` if not set."),
        "introspection_addon_headers": {
            "description": "The client's fields that introspection gets.",
            "type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[^:]+$"}
        },
        "required_scopes": {
            "description": "The scopes that an access token must have.",
            "type": "array", "items": {"type": "string"}
        },
        "claim_schema": {"description": "The JSON Schema of claims.", "type": "object"}
    })
}

/// What the upstream gets.
fn headers() -> Value {
    json!({
        "set_access_token_header": flag("Whether the upstream gets the access token.", true),
        "access_token_in_authorization_header": flag("Whether in `Authorization` and not in `X-Access-Token`.", false),
        "set_id_token_header": flag("Whether it gets the ID token's claims in `X-ID-Token`.", true),
        "set_raw_id_token_header": flag("Whether it gets the ID token itself in `X-Raw-ID-Token`.", false),
        "set_userinfo_header": flag("Whether it gets what is known of the user in `X-Userinfo`.", true),
        "set_refresh_token_header": flag("Whether it gets the refresh token in `X-Refresh-Token`.", false)
    })
}

/// How the client signs what it says of itself.
fn client() -> Value {
    json!({
        "client_rsa_private_key": text("The private key of `private_key_jwt`, in PEM."),
        "client_rsa_private_key_id": text("Its id."),
        "client_jwt_assertion_expires_in": seconds("Seconds for which an assertion is valid.", Some(60)),
        "client_jwt_assertion_alg": {
            "description": "The algorithm of assertions; RS256 or HS256 if not set.",
            "type": "string", "enum": ["HS256", "HS512", "RS256", "RS512", "ES256", "ES512"]
        },
        "client_jwt_assertion_audience": text("The audience of assertions; the endpoint if not set.")
    })
}

fn session() -> Value {
    let number =
        |minimum: u64, default: u64| json!({"type": "integer", "minimum": minimum, "default": default});
    json!({
        "type": "object",
        "properties": {
            "secret": {
                "description": "What the key of sessions is derived from.", "type": "string", "minLength": 16
            },
            "cookie_name": text("The cookie's name; `session` if not set."),
            "cookie_path": text("The cookie's path."),
            "cookie_domain": text("The cookie's domain."),
            "cookie_secure": {"description": "Whether the cookie is for HTTPS alone.", "type": "boolean"},
            "cookie_http_only": {"description": "Whether scripts don't see it.", "type": "boolean"},
            "cookie_same_site": {"type": "string", "enum": ["Strict", "Lax", "None", "Default"]},
            "idling_timeout": seconds("Seconds without a request after which a session ends.", None),
            "rolling_timeout": seconds("Seconds after which a session must have been renewed.", None),
            "absolute_timeout": seconds("Seconds after which a session ends in any case.", None),
            "cookie": {
                "description": "Deprecated.",
                "type": "object",
                "properties": {"lifetime": {"description": "Deprecated: `absolute_timeout`.", "type": "integer"}}
            },
            "storage": {"type": "string", "enum": ["cookie", "redis"], "default": "cookie"},
            "redis": {
                "type": "object",
                "properties": {
                    "host": {"type": "string", "minLength": 2, "default": "127.0.0.1"},
                    "port": number(1, 6379),
                    "username": {"type": "string", "minLength": 1},
                    "password": {"type": "string", "minLength": 0},
                    "database": number(0, 0),
                    "prefix": text_or("What keys begin with.", "sessions"),
                    "ssl": {"type": "boolean", "default": false},
                    "ssl_verify": {"type": "boolean", "default": true},
                    "server_name": text("No effect: the name is the host."),
                    "connect_timeout": number(1, 1000),
                    "send_timeout": number(1, 1000),
                    "read_timeout": number(1, 1000),
                    "keepalive_timeout": number(1000, 10_000)
                }
            }
        },
        "required": ["secret"],
        "if": {"properties": {"storage": {"enum": ["redis"]}}},
        "then": {"required": ["redis"]},
        "additionalProperties": false
    })
}
