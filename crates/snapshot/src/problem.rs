//! What the store holds and the gateway can't use.

use model::ConfigError;

/// A stored value that could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its store key: `/routes/1`.
    pub key: String,
    /// Where it stands, as `FILE:LINE:COLUMN`, where it comes from a file.
    pub place: Option<String>,
    /// What is wrong with it, with paths in the value.
    pub errors: Vec<ConfigError>,
    /// Whether an earlier version of it is in use; else it is left out.
    pub earlier_in_use: bool,
    /// The revision that wrote the version in use, where the store knows it.
    pub revision_in_use: Option<u64>,
}
