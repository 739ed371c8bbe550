//! What auth plugins have in common: the answer to who is not let in, and the anonymous consumer.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use plugin::{Exchange, Flow, Identity, Reply, log_for};
use serde::Deserialize;
use serde_json::{Value, json};

/// What every auth plugin's configuration has.
#[derive(Debug, Deserialize)]
pub(crate) struct Door {
    realm: String,
    anonymous_consumer: Option<String>,
}

impl Door {
    /// Lets in whom the plugin found, with [`Door::refuse`] for everybody else.
    pub(crate) fn admit<'x>(
        &self,
        exchange: &mut Exchange<'x>,
        scheme: &str,
        found: Result<&'x Identity, &str>,
    ) -> Flow {
        match found {
            Ok(identity) => {
                exchange.attach(identity);
                Flow::Next
            }
            Err(why) => self.refuse(exchange, scheme, why),
        }
    }

    /// Answers 401, unless there is a consumer for those who show nothing valid. `scheme` is what `WWW-Authenticate`
    /// names; `why` is told to the client, and says no more than it knows already.
    fn refuse(&self, exchange: &mut Exchange<'_>, scheme: &str, why: &str) -> Flow {
        let why = match &self.anonymous_consumer {
            Some(name) if exchange.attach_anonymous(name) => return Flow::Next,
            Some(name) => {
                log_for!(error, exchange, "the anonymous consumer {name} does not exist");
                "Invalid user authorization"
            }
            None => why,
        };
        let challenge = format!("{scheme} realm=\"{}\"", self.realm);
        Flow::reply(Reply::message(401, why).with_header("WWW-Authenticate", challenge))
    }
}

/// The schema of `realm`: printable ASCII but for quotation mark and backslash, which would end the header's string.
pub(crate) fn realm_schema(default: &str) -> Value {
    json!({
        "type": "string",
        "pattern": "^[\x20-\x21\x23-\x5B\\]-\x7E]+$",
        "default": default,
        "minLength": 1,
        "maxLength": 128
    })
}

/// The schema of `anonymous_consumer`.
pub(crate) fn anonymous_consumer_schema() -> Value {
    json!({"type": "string", "minLength": 1})
}

/// Whether `a` and `b` are equal, found out in a time that depends on their lengths alone: clients may guess secrets.
pub(crate) fn same_secret(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

/// With or without padding, as nginx's Lua module.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What an `Authorization` field of the scheme `Basic` holds, white space taken out as APISIX does.
pub(crate) fn user_and_password(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = header.split_at_checked(5)?;
    let encoded = rest.strip_prefix(b" ").filter(|_| scheme.eq_ignore_ascii_case(b"basic"))?;
    let decoded = BASE64.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let bare = |part: &[u8]| part.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    Some((bare(&decoded[..colon]), bare(&decoded[colon + 1..])))
}
