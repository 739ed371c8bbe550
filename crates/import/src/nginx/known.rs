//! What is known of a server before its locations are looked at.

use super::tree::Directive;
use std::collections::BTreeSet;

/// A server.
pub(super) struct Server<'d> {
    pub(super) block: &'d Directive,
    pub(super) ports: BTreeSet<u16>,
    pub(super) names: Vec<String>,
    /// The ports on which it takes what no other server's name matches.
    pub(super) default: BTreeSet<u16>,
}
