//! Request to route: host and URI radix trees, the conditions of a route, and `vars` expressions. Pure: no I/O and
//! no clock; a match allocates nothing.
//!
//! The order of choice is that of APISIX's `radixtree_host_uri` (see [`Mode`]): hosts from the exact one to the
//! shortest wildcard, then routes of any host; below a host the exact path, then prefixes from the longest to the
//! shortest; within one path by priority, then the longer pattern, then the lesser id. A candidate whose
//! [`Conditions`] fail is passed over; the search goes on with the next.

mod conditions;
mod entry;
mod explain;
pub mod expr;
mod glob;
mod methods;
mod networks;
mod number;
mod operator;
mod pattern;
mod payloads;
mod request;
mod router;
mod tree;
mod window;

pub use conditions::{Condition, Conditions, RouteFilter};
pub use entry::RouteEntry;
pub use explain::{Beaten, Considered, Explanation, Outcome};
pub use expr::Expr;
pub use methods::MethodSet;
pub use networks::Networks;
pub use pattern::uri_param;
pub use request::RequestFacts;
pub use router::{Match, Mode, Router};
