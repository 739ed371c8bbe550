//! Changes of the store: `PUT`, `POST`, `PATCH`, `DELETE`, and several of them in one transaction.

pub(crate) mod commit;
pub(crate) mod delete;
pub(crate) mod merge;
pub(crate) mod overlay;
pub(crate) mod patch;
pub(crate) mod put;
pub(crate) mod subresources;
pub(crate) mod txn;
