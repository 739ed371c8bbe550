//! Whether resources may be written: one by one, and whole configurations.

pub(crate) mod all;
pub(crate) mod certificates;
pub(crate) mod configs;
pub(crate) mod duplicates;
pub(crate) mod files;
pub(crate) mod mistakes;
pub(crate) mod plugins;
pub(crate) mod references;
pub(crate) mod resource;
pub(crate) mod streams;
pub(crate) mod upstreams;
