//! The Admin API over an embedded store: what APISIX's own tests (t/admin) ask of it, and what must hold for any input.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

mod access;
mod bench;
mod callers;
mod costs;
mod declaring;
mod kinds;
mod listing;
mod patching;
mod property;
mod racing;
mod refusals;
mod schemas;
mod sealed;
mod served;
mod shapes;
mod using;
