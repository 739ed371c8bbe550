//! Static files: from a request's path to a representation of a file.
//!
//! A [`Site`] is what an operator configured; [`Files`] is what one worker knows of the files behind it. Opening and
//! reading happen on the worker, as in nginx, and once: what was opened is trusted for as long as the site says, short
//! files are kept in memory, and each is compressed once for all workers.

pub mod accept;
mod answer;
mod body;
pub mod compress;
mod document;
mod etag;
mod files;
mod find;
mod generations;
mod listing;
pub mod path;
mod query;
mod redirect;
pub mod root;
mod site;
mod variants;

pub use answer::{Answer, Fields, SharedFields};
pub use body::Body;
pub use files::{Files, Job, Outcome};
pub use query::Query;
pub use site::Site;
pub use variants::{Key, VARIANT_BYTES_DEFAULT, Variant, Variants};
