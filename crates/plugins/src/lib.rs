//! The plugins: one file each, and the list of them.
//!
//! Everything about a plugin is in its file: documentation, configuration with its schema, compiled form, hooks, tests.

use plugin::PluginDef;

pub mod limit_count;
pub mod prometheus;

/// All plugins, in alphabetical order.
pub const ALL: &[&PluginDef] = &[&limit_count::DEF, &prometheus::DEF];

#[cfg(test)]
mod tests;
