//! The part of LDAP (RFC 4511) that authentication needs: simple bind, and the search for a user's entry.
//!
//! What a client sends stands in messages as values with a length of their own. There is no filter text in which it could
//! be anything else, and a distinguished name is made of it by [`escape_rdn`] alone.

mod ber;
mod directory;
mod message;
mod name;

pub(crate) use directory::{Client, Directory, DirectoryConfig, LdapError};
pub(crate) use message::{INVALID_CREDENTIALS, SIZE_LIMIT_EXCEEDED, Search};
pub(crate) use name::escape_rdn;
