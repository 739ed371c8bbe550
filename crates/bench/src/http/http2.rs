//! HTTP/2.
use crate::load::Turn;
pub(crate) fn run(_turn: Turn<'_>) -> Result<Turn<'_>, String> { Err("not yet".into()) }
