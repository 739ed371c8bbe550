//! `tidegate bench`: how fast a server answers, measured so that the figure can be trusted and repeated.
//!
//! A run is [`load`] (threads that send requests and take their times), searched over by [`sla`] and set up by
//! [`scenario`]; what it measured goes into a [`result`] file, which the crate `bench-report` compares with others.

pub mod cli;
pub mod http;
pub mod live;
pub mod load;
pub mod machine;
pub mod result;
pub mod scenario;
pub mod sla;
pub mod stats;
