//! The query's arguments.

use crate::AdminResponse;
use percent_encoding::percent_decode_str;
use std::time::Duration;
use store::limits::TTL_MAX;

/// Arguments looked at, as OpenResty's `get_uri_args` has it by default.
const ARGS_MAX: usize = 100;

/// The query's arguments, decoded, in the order written.
#[derive(Debug, Default)]
pub(crate) struct Args(Vec<(String, String)>);

impl Args {
    /// Reads a query, or anything encoded like one.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(ARGS_MAX);
        Self(pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(decode).collect())
    }

    /// The first argument of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// An argument that is a number; `None` also where it is something else.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// `ttl`: after how many seconds what is written deletes itself.
    pub(crate) fn ttl(&self) -> Result<Option<Duration>, AdminResponse> {
        let refuse = |why: String| AdminResponse::error(400, format!("invalid argument ttl: {why}"));
        if self.get("ttl").is_none() {
            return Ok(None);
        }
        let seconds = self.number("ttl").ok_or_else(|| refuse("should be a number".to_owned()))?;
        let ttl = Duration::try_from_secs_f64(seconds).ok().filter(|ttl| *ttl >= Duration::from_secs(1));
        match ttl {
            Some(ttl) if ttl <= TTL_MAX => Ok(Some(ttl)),
            _ => Err(refuse(format!("should be between 1 and {} seconds", TTL_MAX.as_secs()))),
        }
    }
}

fn decode((name, value): (&str, &str)) -> (String, String) {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    (decode(name), decode(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded() {
        let args = Args::parse("a=1&b=x+y%26z&a=2&&flag&%41=%zz");
        for (name, expected) in
            [("a", Some("1")), ("b", Some("x y&z")), ("flag", Some("")), ("A", Some("%zz")), ("c", None)]
        {
            assert_eq!(args.get(name), expected, "{name}");
        }
    }

    #[test]
    fn a_ttl_is_a_number_in_range() {
        for (query, expected) in [
            ("", Ok(None)),
            ("ttl=1", Ok(Some(1))),
            ("ttl=60", Ok(Some(60))),
            ("ttl=abc", Err("invalid argument ttl: should be a number")),
            ("ttl=", Err("invalid argument ttl: should be a number")),
            ("ttl=NaN", Err("invalid argument ttl: should be a number")),
            ("ttl=0", Err("invalid argument ttl: should be between 1 and 315360000 seconds")),
            ("ttl=-5", Err("invalid argument ttl: should be between 1 and 315360000 seconds")),
            ("ttl=1e300", Err("invalid argument ttl: should be between 1 and 315360000 seconds")),
        ] {
            let found = Args::parse(query).ttl();
            match expected {
                Ok(seconds) => assert_eq!(found.unwrap(), seconds.map(Duration::from_secs), "{query}"),
                Err(words) => {
                    let body = String::from_utf8(found.unwrap_err().body).unwrap();
                    assert!(body.contains(words), "{query}: {body}");
                }
            }
        }
    }
}
