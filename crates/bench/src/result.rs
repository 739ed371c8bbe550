//! The result file: what a run measured, and where, as versioned JSON.
