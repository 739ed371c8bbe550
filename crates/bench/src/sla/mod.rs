//! The highest load under which a server keeps a promise, such as "99 % of the answers within 5 ms, and no error".

mod condition;
mod hunt;
mod search;

pub use condition::Condition;
pub use hunt::{Hunt, Over, Run, hunt};
pub use search::{Range, Report, Search, Step};
