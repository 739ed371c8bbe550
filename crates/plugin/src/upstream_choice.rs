//! Which upstream a request of a client or of a plugin goes to.

use std::any::Any;
use std::sync::Arc;

/// An upstream that a plugin chose.
#[derive(Debug, Clone)]
pub enum UpstreamChoice {
    /// The resource with this id.
    Id(Arc<str>),
    /// One that is written in the plugin's configuration: what [`crate::CompileContext::upstream`] made of it.
    Written(Arc<dyn Any + Send + Sync>),
}
