//! What the user sees while a run lasts, and how the user ends it.

mod interrupt;
mod view;

pub use interrupt::Interrupt;
pub use view::{Shown, View};
