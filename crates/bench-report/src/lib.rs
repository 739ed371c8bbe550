//! `tidegate bench report` and `tidegate bench compare`: result files of the load generator side by side, with what the
//! machines cost and with figures that others published.
//!
//! The crate `bench` measures and writes result files; here they are read. Neither is part of a gateway that is built
//! without the feature `bench`.

pub mod prices;
pub mod report;
