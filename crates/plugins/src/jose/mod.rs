//! Signed tokens and the keys that check them: JWT (RFC 7519), JWS (RFC 7515), JWK (RFC 7517).

mod jwks;
mod key;
mod sign;
mod token;

pub(crate) use jwks::Jwks;
pub(crate) use key::{Algorithm, Key};
pub(crate) use sign::Signer;
pub(crate) use token::{TimeClaim, Token};
