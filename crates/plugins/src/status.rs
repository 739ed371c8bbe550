//! Statuses of answers.

use model::ConfigError;

/// A status, as far as a schema of APISIX's leaves open whether it is one; `path` is where it stands.
///
/// # Errors
/// When it doesn't fit a status line (RFC 9112 section 4: three digits), or isn't a final one.
pub(crate) fn status(number: u64, path: &str) -> Result<u16, Vec<ConfigError>> {
    let status = u16::try_from(number).ok().filter(|status| (200..1000).contains(status));
    status.ok_or_else(|| vec![ConfigError::new(path, "must be from 200 to 999")])
}
