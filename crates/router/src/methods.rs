//! A set of request methods in one word.

use model::ConfigError;

/// The methods a route can name, as in APISIX's schema; a method's bit is its place here.
const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

/// A set of methods; the empty set, which is the default, stands for all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MethodSet(u16);

impl MethodSet {
    /// The set of `names`, which are case-sensitive. Errors have pointers relative to the list.
    pub fn compile(names: &[String]) -> Result<Self, Vec<ConfigError>> {
        let (mut set, mut errors) = (0, Vec::new());
        for (at, name) in names.iter().enumerate() {
            match bit(name.as_bytes()) {
                0 => errors.push(ConfigError::new(
                    format!("/{at}"),
                    format!("unknown method '{name}', expected one of {}", METHODS.join(", ")),
                )),
                bit => set |= bit,
            }
        }
        if errors.is_empty() { Ok(Self(set)) } else { Err(errors) }
    }

    /// Whether a request with `method` is in the set. Methods outside the ten are in no set but the empty one.
    #[inline]
    #[must_use]
    pub fn allows(self, method: &[u8]) -> bool {
        self.0 == 0 || self.0 & bit(method) != 0
    }
}

/// The method's bit, or 0 where it has none.
fn bit(method: &[u8]) -> u16 {
    METHODS.iter().position(|name| name.as_bytes() == method).map_or(0, |place| 1 << place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_allows_its_members_and_the_empty_one_allows_all() {
        let set = MethodSet::compile(&["GET".to_owned(), "PURGE".to_owned()]).expect("known methods");
        for (method, expected) in
            [("GET", true), ("PURGE", true), ("POST", false), ("get", false), ("BREW", false)]
        {
            assert_eq!(set.allows(method.as_bytes()), expected, "{method}");
        }
        assert!(MethodSet::default().allows(b"BREW"));
    }

    #[test]
    fn every_unknown_name_is_reported() {
        let errors =
            MethodSet::compile(&["get".to_owned(), "GET".to_owned(), "BREW".to_owned()]).expect_err("two");
        assert_eq!(errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["/0", "/2"]);
    }
}
