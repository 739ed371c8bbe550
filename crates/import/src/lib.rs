//! Configurations of other servers, translated into Tidegate's, with a verdict for each of their directives: a
//! translation that leaves something out in silence is worse than none.

pub mod nginx;
mod verdict;

pub use verdict::{Note, Translation, Verdict};
