//! Statistics over repeated runs: median, spread, intervals by bootstrap, Mann-Whitney.
//!
//! Runs are few (3 to 20) and their rates are not normally distributed: a neighbour on the machine makes a long tail to one
//! side. So everything here rests on ranks and resampling, nothing on a mean.

mod bootstrap;
mod quantile;
mod rank_test;
mod summary;

pub use bootstrap::{Interval, median_interval, ratio_interval};
pub use quantile::{median, quantile};
pub use rank_test::{MannWhitney, mann_whitney};
pub use summary::Summary;
