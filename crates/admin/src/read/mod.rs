//! What the store has, as answers show it: resources, schemas, the history and its differences.

pub(crate) mod diff;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod paging;
pub(crate) mod schemas;
pub(crate) mod shape;
pub(crate) mod stored;
