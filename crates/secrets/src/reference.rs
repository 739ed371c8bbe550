//! `$secret://manager/id/key` and `$env://NAME/key`: a secret named instead of written.

use serde_json::Value;
use std::sync::Arc;

const SECRET: &str = "$secret://";
/// In any case, as APISIX's.
const ENV: &str = "$env://";

/// A reference, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    /// A variable of the gateway's environment, or a field of the JSON object that it holds.
    Env { name: &'a str, field: Option<&'a str> },
    /// What a secret manager keeps under `key`. `manager` names the manager's resource: `vault/1`.
    Managed { manager: &'a str, key: &'a str },
}

/// A reference to what a manager keeps, owned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagedRef(pub(crate) Arc<str>);

impl<'a> Reference<'a> {
    /// Whether `text` has a reference's form, however badly it goes on.
    pub(crate) fn is_one(text: &str) -> bool {
        text.starts_with('$') && (text.starts_with(SECRET) || after_env(text).is_some())
    }

    /// The parts of `text`; `None` where it is no reference at all.
    ///
    /// # Errors
    /// In APISIX's words, what a reference lacks.
    pub(crate) fn parse(text: &'a str) -> Option<Result<Self, &'static str>> {
        if let Some(path) = after_env(text) {
            let (name, field) =
                path.split_once('/').map_or((path, None), |(name, field)| (name, Some(field)));
            return Some(Ok(Self::Env { name, field: field.filter(|field| !field.is_empty()) }));
        }
        let path = text.strip_prefix(SECRET)?;
        Some(managed(path))
    }
}

fn managed(path: &str) -> Result<Reference<'_>, &'static str> {
    let (_, rest) = path.split_once('/').ok_or("error format: no secret manager")?;
    let (_, key) = rest.split_once('/').ok_or("error format: no secret conf id")?;
    if key.is_empty() {
        return Err("error format: no secret key id");
    }
    let manager = path.get(..path.len() - key.len() - 1).unwrap_or_default();
    Ok(Reference::Managed { manager, key })
}

impl ManagedRef {
    /// The manager's resource and the key, of a reference that was parsed before.
    pub(crate) fn parts(&self) -> Option<(&str, &str)> {
        match Reference::parse(&self.0)? {
            Ok(Reference::Managed { manager, key }) => Some((manager, key)),
            _ => None,
        }
    }
}

fn after_env(text: &str) -> Option<&str> {
    let (start, rest) = text.split_at_checked(ENV.len())?;
    start.eq_ignore_ascii_case(ENV).then_some(rest)
}

/// The value of an environment reference.
///
/// # Errors
/// Why there is none.
pub(crate) fn env(
    name: &str,
    field: Option<&str>,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Value, String> {
    let value = lookup(name).ok_or_else(|| format!("the environment has no variable {name}"))?;
    match field {
        None => Ok(Value::String(value)),
        Some(field) => json_field(&value, field),
    }
}

/// The field `name` of a secret that is a JSON object.
///
/// # Errors
/// Why there is none. Says nothing of what the secret holds.
pub(crate) fn json_field(secret: &str, name: &str) -> Result<Value, String> {
    let object: Value = serde_json::from_str(secret).map_err(|error| {
        format!(
            "the value is no JSON (line {}, column {}), so it has no field {name}",
            error.line(),
            error.column()
        )
    })?;
    let found = object.get(name).filter(|value| !value.is_null()).cloned();
    found.ok_or_else(|| format!("the value has no field {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_taken_apart_as_apisix_does() {
        let managed = |manager, key| Some(Ok(Reference::Managed { manager, key }));
        let env = |name, field| Some(Ok(Reference::Env { name, field }));
        for (text, expected) in [
            ("$secret://vault/1/jack/auth-key", managed("vault/1", "jack/auth-key")),
            ("$secret://aws/prod/a", managed("aws/prod", "a")),
            ("$env://KEY", env("KEY", None)),
            ("$ENV://KEY/sub/key", env("KEY", Some("sub/key"))),
            ("$Env://KEY/", env("KEY", None)),
            ("$secret://", Some(Err("error format: no secret manager"))),
            ("$secret://vault/1", Some(Err("error format: no secret conf id"))),
            ("$secret://vault/1/", Some(Err("error format: no secret key id"))),
            ("$SECRET://vault/1/a", None),
            ("$en", None),
            ("$€env://", None),
            ("key", None),
        ] {
            assert_eq!(Reference::parse(text), expected, "{text}");
            assert_eq!(Reference::is_one(text), expected.is_some(), "{text}");
        }
    }

    #[test]
    fn variables_may_hold_json() {
        let lookup = |name: &str| match name {
            "PLAIN" => Some("p".to_owned()),
            "JSON" => Some(r#"{"a": "x", "n": 1}"#.to_owned()),
            _ => None,
        };
        assert_eq!(env("PLAIN", None, &lookup), Ok(Value::from("p")));
        assert_eq!(env("JSON", Some("a"), &lookup), Ok(Value::from("x")));
        assert_eq!(env("JSON", Some("n"), &lookup), Ok(Value::from(1)));
        for (name, field) in [("PLAIN", Some("a")), ("JSON", Some("b")), ("NONE", None)] {
            assert!(env(name, field, &lookup).is_err(), "{name}");
        }
    }
}
