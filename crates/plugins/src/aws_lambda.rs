//! Answers requests with a function in AWS Lambda.
//!
//! ## When to use
//! For functions behind AWS' API Gateway or with a URL of their own. The request goes there as it came; it is authorized by
//! an API key or by a signature (AWS Signature Version 4).
//!
//! ## Example
//! ```json
//! {
//!     "aws-lambda": {
//!         "function_uri": "https://x9w6z07gb9.execute-api.us-east-1.amazonaws.com/default/test-apisix",
//!         "authorization": {"apikey": "generated-api-key"}
//!     }
//! }
//! ```
//! On a route with the URI `/aws/:ext` the rest of the path is added to the function's.
//!
//! ## Differences from APISIX
//! - Signed are the host, the date and, if they are there, the content's type and fields that begin with `x-amz-`; by APISIX
//!   all fields, so that a proxy on the way that changes one makes the signature wrong.
//! - What a client sends as `X-Amz-Date` or `X-Amz-Security-Token` isn't passed on with a signature of the gateway's.

use crate::cloud_function::{Function, FunctionConfig, Invocation};
use crate::text::decode_arg;
use model::ConfigError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use plugin::{Call, CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef};
use secrets::sigv4;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use stdx::{Clock, Secret};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<AwsLambda>("aws-lambda", -1899)
        .on_access()
        .encrypt_fields(&[
            "authorization.apikey",
            "authorization.iam.accesskey",
            "authorization.iam.secretkey",
        ])
        .build()
}

/// All but unreserved characters; in a path the slash stays as well.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    #[serde(default)]
    authorization: Authorization,
    #[serde(flatten)]
    function: FunctionConfig,
}

#[derive(Debug, Default, Deserialize)]
struct Authorization {
    apikey: Option<Secret>,
    iam: Option<Iam>,
}

#[derive(Debug, Deserialize)]
struct Iam {
    accesskey: Secret,
    secretkey: Secret,
    #[serde(default = "region")]
    aws_region: String,
    #[serde(default = "service")]
    service: String,
}

fn region() -> String {
    "us-east-1".to_owned()
}

fn service() -> String {
    "execute-api".to_owned()
}

/// The compiled form.
pub struct AwsLambda {
    function: Function,
    authorization: Authorization,
    clock: Arc<Clock>,
}

impl Plugin for AwsLambda {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let function = Function::compile(&config.function, cx)?;
        Ok(Self { function, authorization: config.authorization, clock: cx.shared.get() })
    }

    fn schema() -> Value {
        let text = |what: &str| json!({"description": what, "type": "string"});
        let or =
            |what: &str, default: &str| json!({"description": what, "type": "string", "default": default});
        let authorization = json!({
            "type": "object",
            "properties": {
                "apikey": text("The key of API Gateway."),
                "iam": {
                    "type": "object",
                    "properties": {
                        "accesskey": text("The id of the access key."),
                        "secretkey": text("Its secret."),
                        "aws_region": or("The region.", "us-east-1"),
                        "service": or("The service: `lambda` for function URLs.", "execute-api")
                    },
                    "required": ["accesskey", "secretkey"]
                }
            }
        });
        let encrypted =
            ["authorization.apikey", "authorization.iam.accesskey", "authorization.iam.secretkey"];
        Function::schema(&authorization, &encrypted)
    }
}

impl OnAccess for AwsLambda {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        let has = |name: &[u8]| exchange.request.header(name).is_some();
        let (has_key, has_authorization) = (has(b"x-api-key"), has(b"authorization"));
        self.function.invoke(exchange, "aws-lambda", |mut invocation| {
            match (&self.authorization.apikey, &self.authorization.iam) {
                (Some(key), _) if !has_key => {
                    invocation.call.headers.set("X-Api-Key", key.as_str());
                    invocation.call
                }
                (_, Some(iam)) if !has_authorization => iam.sign(invocation, now_s),
                _ => invocation.call,
            }
        })
    }
}

impl Iam {
    /// Signs a request, whose query becomes the canonical one.
    fn sign(&self, invocation: Invocation<'_>, now_s: u64) -> Call {
        let Invocation { call, path, query, body, endpoint, timeouts } = invocation;
        let mut pairs: Vec<(String, String)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let encode = |text: &str| percent_encode(&decode_arg(text.as_bytes()), QUERY).to_string();
                (encode(name), encode(value))
            })
            .collect();
        pairs.sort_unstable();
        let query: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = query.join("&");
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let Ok(mut signed) = Call::new(call.method(), endpoint.authority.as_str(), target, timeouts) else {
            return call;
        };
        let mut headers = vec![("host", endpoint.authority.clone())];
        for (name, value) in call.headers.fields() {
            let name = String::from_utf8_lossy(name);
            // The date is the signature's, and so is whose it is.
            if !["x-amz-date", "x-amz-security-token"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
                signed.headers.append(&name, value);
            }
        }
        if let Some(Some(kind)) = call.headers.get(b"content-type") {
            headers.push(("content-type", String::from_utf8_lossy(kind.trim_ascii()).into_owned()));
        }
        let credentials = sigv4::Credentials {
            access_key_id: self.accesskey.as_str(),
            secret_access_key: self.secretkey.as_str(),
            region: &self.aws_region,
            service: &self.service,
        };
        let path = percent_encode(path.as_bytes(), PATH).to_string();
        let signature = sigv4::sign(&credentials, now_s, call.method(), (&path, &query), &headers, body);
        signed.headers.set("X-Amz-Date", signature.date);
        signed.headers.set("Authorization", signature.authorization);
        signed.body = call.body;
        signed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench, MadeCall};
    use plugin::{Chain, Registry};

    fn chain(authorization: &Value) -> Chain {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config =
            json!({"function_uri": "http://fn.test:1/stage/a%20b?own=1", "authorization": authorization});
        testkit::chain(&registry, &json!({ "aws-lambda": config })).expect("valid")
    }

    fn sent(authorization: &Value, request: &str, body: &str) -> MadeCall {
        let bench = Bench::new(request).with_body(body);
        bench.services.answer(200, &[], "done");
        testkit::request(&chain(authorization), &mut bench.exchange());
        bench.services.calls().remove(0)
    }

    #[test]
    fn an_api_key_is_added_unless_the_client_has_one() {
        let key = json!({"apikey": "k"});
        let call = sent(&key, "POST /x?a=1&b\nContent-Length: 2\nX-A: 1\nConnection: close", "hi");
        assert_eq!(
            (call.method.as_str(), call.authority.as_str(), call.target.as_str(), &*call.body),
            ("POST", "fn.test:1", "/stage/a%20b?a=1&b", &b"hi"[..])
        );
        assert_eq!(call.headers, "X-A: 1\r\nX-Api-Key: k\r\n");
        assert!(sent(&key, "GET /\nX-Api-Key: own", "").headers.contains("X-Api-Key: own\r\n"));
    }

    #[test]
    fn a_request_is_signed_with_its_canonical_query() {
        let iam = json!({"iam": {"accesskey": "AK", "secretkey": "SK", "service": "lambda"}});
        let request = "GET /?z=2&a=x+y&a=%41&c\nX-Amz-Date: forged\nContent-Type:  text/plain";
        let call = sent(&iam, request, "");
        assert_eq!(call.target, "/stage/a%20b?a=A&a=x%20y&c=&z=2");
        let (_, signature) =
            call.headers.split_once("Authorization: AWS4-HMAC-SHA256 Credential=AK/").expect("signed");
        let (scope, rest) = signature.split_once(", ").expect("its scope");
        assert!(scope.ends_with("/us-east-1/lambda/aws4_request"), "{scope}");
        assert!(rest.starts_with("SignedHeaders=content-type;host;x-amz-date, Signature="), "{rest}");
        assert!(!call.headers.contains("forged"), "{}", call.headers);
        let own = sent(&iam, "GET /\nAuthorization: mine", "");
        assert!(
            own.headers.contains("Authorization: mine\r\n") && !own.headers.contains("AWS4"),
            "{}",
            own.headers
        );
    }

    #[test]
    fn a_function_that_fails_is_unavailable_and_a_body_that_is_too_long_refused() {
        let bench = Bench::new("GET /");
        assert_eq!(testkit::access(&chain(&json!({})), &mut bench.exchange()), 503);
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config = json!({"aws-lambda": {"function_uri": "http://fn.test/", "max_req_body_size": 2}});
        let chain = testkit::chain(&registry, &config).expect("valid");
        let bench = Bench::new("POST /\nContent-Length: 3").with_body("abc");
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 413);
        for config in [
            json!({}),
            json!({"function_uri": "fn"}),
            json!({"function_uri": "http://a/", "timeout": 99}),
            json!({"function_uri": "http://a/", "authorization": {"iam": {"accesskey": "a"}}}),
        ] {
            assert!(testkit::chain(&registry, &json!({ "aws-lambda": config })).is_err(), "{config}");
        }
    }
}
