//! Access tokens that the provider was asked about.

use super::claims::Claims;
use ring::digest;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens whose introspection is kept. Each takes about 1 kB.
const INTROSPECTED_MAX: usize = 10_000;

/// What introspection told, by the digests of tokens.
#[derive(Default)]
pub(super) struct Introspected(Mutex<HashMap<[u8; 32], Told>>);

/// The claims, and until when they are good, in seconds since 1970.
type Told = (Arc<Claims>, u64);

impl Introspected {
    pub(super) fn find(&self, token: &str, now_s: u64) -> Option<Arc<Claims>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key(token)).filter(|(_, until_s)| now_s < *until_s).map(|(claims, _)| Arc::clone(claims))
    }

    pub(super) fn keep(&self, token: &str, claims: &Arc<Claims>, now_s: u64, until_s: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= INTROSPECTED_MAX {
            known.retain(|_, (_, until_s)| now_s < *until_s);
        }
        if known.len() < INTROSPECTED_MAX {
            known.insert(key(token), (Arc::clone(claims), until_s));
        }
    }
}

fn key(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    key
}
