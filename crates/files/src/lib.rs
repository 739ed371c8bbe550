//! Static files: from a request's path to a representation of a file.

pub mod path;
pub mod root;
