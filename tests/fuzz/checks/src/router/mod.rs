//! What must hold for the router and for `vars` expressions on any input; panics where it doesn't. Run by the fuzz
//! targets, and by the ordinary tests of `crates/router` on the seeds.

pub mod routes;
pub mod vars_expression;
