//! `protos`: protobuf definitions, which plugins refer to by id.

use crate::Id;
use serde::Deserialize;

/// A protobuf definition.
#[derive(Debug, Clone, Deserialize)]
pub struct Proto {
    /// Its id.
    pub id: Option<Id>,
    /// The text of a `.proto` file, or a compiled descriptor set in base64.
    pub content: String,
}
