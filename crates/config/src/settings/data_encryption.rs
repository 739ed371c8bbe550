//! `apisix.data_encryption` and `apisix.lru.secret`: how stored secrets are encrypted, and how long referenced ones are
//! believed.

use std::time::Duration;

/// `apisix.data_encryption`, with `apisix.lru.secret`.
#[derive(Clone, PartialEq)]
pub struct DataEncryption {
    /// `enable_encrypt_fields`: whether plugins' secret fields are encrypted when they are written. Private keys are in
    /// any case.
    pub fields: bool,
    /// `keyring`: the first key encrypts, all of them decrypt. `None` where the key is absent: a key is made then. Empty
    /// where it is there and empty, which encrypts nothing.
    pub keyring: Option<Vec<String>>,
    /// `format`, ours: whether APISIX's AES-CBC is written, for a store that APISIX reads.
    pub apisix_format: bool,
    /// `lru.secret.ttl`: how long a referenced value is used before it is asked for again.
    pub secret_ttl: Duration,
    /// `lru.secret.neg_ttl`: how long after a failure it is asked for again.
    pub secret_failure_ttl: Duration,
}

impl Default for DataEncryption {
    fn default() -> Self {
        Self {
            fields: true,
            keyring: None,
            apisix_format: false,
            secret_ttl: Duration::from_secs(300),
            secret_failure_ttl: Duration::from_secs(60),
        }
    }
}

impl std::fmt::Debug for DataEncryption {
    /// Without the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataEncryption").field("fields", &self.fields).finish_non_exhaustive()
    }
}
