//! Which node of an upstream takes a request: APISIX's four algorithms and one of ours, and its priority tiers; what is thought of a
//! node's health, and which nodes stand out by their failures.
//!
//! Nothing here does I/O or reads a clock: the caller passes the time, the keys and what may not be picked. A
//! [`Balancer`] belongs to one worker; [`Balancer::fork`] makes the next worker's, sharing what never changes.

mod algorithm;
mod balancer;
mod chash;
mod crc32;
mod ewma;
pub mod health;
mod least_conn;
mod load;
mod node;
pub mod outlier;
mod p2c;
mod pair;
mod pick;
mod random;
mod retry_budget;
mod roundrobin;
mod tier;

pub use algorithm::Algorithm;
pub use balancer::Balancer;
pub use node::{Identity, Node};
pub use pick::{Outcome, Pick};
pub use retry_budget::RetryBudget;
